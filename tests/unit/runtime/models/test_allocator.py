"""What a batch frees is there for the next: no page is paid for twice."""

import subprocess
import sys

CHURN = """
import resource
import numpy as np
from penstock_runtime.models.device.malloc import keep_freed_memory

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def batch():
    [np.ones(2**20, np.float32) for _ in range(6)]

def churn():
    batch()
    before = faults()
    for _ in range(5):
        batch()
    return faults() - before

print(churn())
keep_freed_memory()
print(churn())
"""


def test_batches_after_the_first_touch_no_new_pages() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHURN], check=True, capture_output=True, text=True, timeout=60
    )
    default, tuned = map(int, done.stdout.split())
    assert default > 5_000, "24 MiB are 6,144 pages, five times over"
    assert tuned < 200
