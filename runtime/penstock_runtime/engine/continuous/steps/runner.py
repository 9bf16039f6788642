"""Runners of step plans: in the engine's own thread, or in a second thread so that planning overlaps with steps.

Results are passed by lightweight futures: `concurrent.futures.Future` costs ten times as much, twice per step.
"""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Any, Never, Protocol, TypeVar

from typing_extensions import override

from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan, StepResult

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StepFuture(Protocol[T_co]):
    """The part of `concurrent.futures.Future` that the loop needs."""

    __slots__ = ()

    def result(self) -> T_co:
        """Wait for the call; return its value or raise its exception."""


class Runner(Protocol):
    """Runs plans in order, possibly in a separate thread."""

    depth: int
    """How many plans may be submitted beyond the one whose result the loop waits for."""

    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        """Run `plan` after all earlier ones; `inputs` is called in the thread that runs it."""

    def close(self) -> None:
        """Finish the submitted plans and end the thread."""


class ReadyResult(StepFuture[T]):
    """A result that is available at once."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    @override
    def result(self) -> T:
        return self._value


class RaisedResult(StepFuture[Never]):
    """The exception of a call that raised; it is read once."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    @override
    def result(self) -> Never:
        try:
            raise self._error
        finally:
            # a cycle, whose traceback has the frames with the step's tensors
            del self._error


class PendingCall(StepFuture[T]):
    """A call that another thread runs once."""

    __slots__ = ("_call", "_done", "_outcome")

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._outcome: StepFuture[T]
        self._done = Lock()
        self._done.acquire()

    def run(self) -> None:
        """Run the call and release the threads that wait for its result."""
        try:
            self._outcome = ReadyResult(self._call())
        except BaseException as error:  # noqa: BLE001  raised again by `result`
            self._outcome = RaisedResult(error)
        self._done.release()

    @override
    def result(self) -> T:
        with self._done:
            return self._outcome.result()


class StepThread:
    """A daemon thread that runs calls in the order of their submission.

    It is not a `ThreadPoolExecutor`, whose futures cost a tenth of a small model's step, and whose threads are joined
    at exit even if a load was abandoned or a step hangs.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[PendingCall[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="penstock-step", daemon=True)
        self._thread.start()

    def submit(self, call: Callable[[], T]) -> StepFuture[T]:
        """Run `call` after all earlier ones; return its future."""
        pending = PendingCall(call)
        self._calls.put(pending)
        return pending

    def close(self) -> None:
        """Wait until all submitted calls are done; none may follow."""
        self._calls.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (pending := self._calls.get()) is not None:
            pending.run()
            del pending  # so that the waiting thread keeps no plan alive


class InlineRunner(Runner):
    """Depth 0: `submit` returns when the step is done."""

    depth = 0

    def __init__(self, step: StepExecutor) -> None:
        self._step = step

    @override
    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        try:
            return ReadyResult(self._step.run(plan, inputs))
        except Exception as error:  # noqa: BLE001  raised again by `result`
            return RaisedResult(error)

    @override
    def close(self) -> None:
        """Do nothing: there is no thread to end."""


class ThreadRunner(Runner):
    """Depth 1: steps run in a `StepThread`, which must also have loaded the model."""

    depth = 1

    def __init__(self, step: StepExecutor, thread: StepThread) -> None:
        self._step = step
        self._thread = thread

    @override
    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        return self._thread.submit(partial(self._step.run, plan, inputs))

    @override
    def close(self) -> None:
        self._thread.close()
