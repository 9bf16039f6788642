"""A native crash leaves Python's stacks behind it."""

import signal
import subprocess
import sys

import pytest

CRASH = "from penstock_runtime.engine.crashes import report_crashes; report_crashes(); import os; os.kill(os.getpid(), {})"


@pytest.mark.parametrize("crash", [signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS])
def test_a_native_crash_is_reported_on_stderr(crash: signal.Signals) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CRASH.format(int(crash))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == -crash
    assert "Fatal Python error" in ran.stderr
    assert 'File "<string>", line 1 in <module>' in ran.stderr
