"""The step thread runs calls in order and does not delay the end of the process."""

import subprocess
import sys
import threading

import pytest

from penstock_runtime.engine.continuous.steps.runner import StepThread


def test_calls_run_in_order_and_before_the_thread_ends() -> None:
    thread, done, gate = StepThread(), list[int](), threading.Event()
    thread.submit(gate.wait)
    for number in range(5):
        thread.submit(lambda number=number: done.append(number))  # type: ignore[misc]
    gate.set()
    thread.close()
    assert done == [0, 1, 2, 3, 4]


def test_an_exception_is_raised_by_result_and_the_thread_continues() -> None:
    thread = StepThread()
    broken, whole = thread.submit(lambda: 1 // 0), thread.submit(lambda: "fine")
    with pytest.raises(ZeroDivisionError):
        broken.result()
    assert whole.result() == "fine"
    assert whole.result() == "fine", "a result can be read twice"
    thread.close()


def test_a_process_ends_although_a_load_goes_on() -> None:
    program = (
        "import threading\n"
        "from penstock_runtime.engine.continuous.steps.runner import StepThread\n"
        "StepThread().submit(threading.Event().wait)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
