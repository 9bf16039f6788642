"""Time to form a batch by queue length; only heads are read, so that it hardly depends on the length."""

import time
from statistics import median
from typing import Final

import numpy as np

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.dynamic.batch_former import (
    ArrivalForecast,
    Batch,
    BatchLimits,
    form_batch,
)
from penstock_runtime.engine.queue.queue import WaitingRequests
from penstock_runtime.engine.service_time import UNKNOWN
from penstock_runtime.request import Request
from tests.bench.http.plan import MAX_BATCH

WAITING: Final = (100, 300, 1000, 3000, 10_000)
BATCHES: Final = 300
_ROW: Final = np.zeros((1, 64), np.float32)
_GROUP: Final = (("X", "FP32", (64,)),)


def forming_microseconds() -> dict[int, float]:
    """Return the median time to form a batch of 64, by the number of waiting requests."""
    return {number: round(_median(number), 1) for number in WAITING}


def _median(number: int) -> float:
    queue, seconds, added = WaitingRequests(Discipline.PRIORITY), [], 0
    for _ in range(BATCHES):
        while len(queue) < number:
            added += 1
            queue.add(Request(str(added), {"X": _ROW}, 1, _GROUP, float(added), added + 1e9))
        began = time.perf_counter()
        placement = form_batch(
            queue, BatchLimits(MAX_BATCH, 0.0), ArrivalForecast(UNKNOWN, 0.0), added + 1.0
        )
        seconds.append(time.perf_counter() - began)
        assert isinstance(placement, Batch)
    return 1e6 * median(seconds)
