"""The step thread runs calls in order and does not delay the end of the process."""

import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_runtime.engine.continuous.steps.runner import (
    InlineRunner,
    Runner,
    StepThread,
    ThreadRunner,
)


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


class Tensors:
    """In place of what a step allocates."""


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("threaded", [False, True])
def test_nothing_is_kept_of_a_step_that_failed(threaded: bool) -> None:
    kept = list[weakref.ref[Tensors]]()

    def run(*_: object) -> None:
        tensors = Tensors()
        kept.append(weakref.ref(tensors))
        raise ZeroDivisionError

    step, thread, nothing = SimpleNamespace(run=run), StepThread(), SimpleNamespace()
    runner: Runner = ThreadRunner(step, thread) if threaded else InlineRunner(step)
    result: Any = runner.submit(nothing, lambda: nothing)  # type: ignore[arg-type,return-value]
    with pytest.raises(ZeroDivisionError):
        result.result()
    assert kept[0]() is None
    thread.close()


def test_a_process_ends_although_a_load_goes_on() -> None:
    program = (
        "import threading\n"
        "from penstock_runtime.engine.continuous.steps.runner import StepThread\n"
        "StepThread().submit(threading.Event().wait)\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
