"""Where steps run: in the engine's own thread, or in one beside it so that planning hides behind the device.

The thread that steps run in where they overlap with planning.

What a step, or the inputs of its draws, come to: known at once, or when another thread has them.

A `Future` costs ten times what these do, twice a step.
"""

import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Any, Generic, Never, Protocol, TypeVar

from penstock_runtime.engine.continuous.interfaces import StepExecutor
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.step_plan import StepPlan, StepResult

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class StepFuture(Protocol[T_co]):
    """What of `concurrent.futures.Future` the loop needs."""

    def result(self) -> T_co:
        """Wait for it, and return it or raise what was raised."""


class Known(Generic[T]):
    """It is there."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value = value

    def result(self) -> T:
        """As `StepFuture.result`."""
        return self._value


class Raised:
    """There will be none."""

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def result(self) -> Never:
        """As `StepFuture.result`."""
        raise self._error


class Coming(Generic[T]):
    """Another thread will call `make`, once."""

    __slots__ = ("_done", "_make", "_outcome")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._outcome: StepFuture[T]
        self._done = Lock()
        self._done.acquire()

    def make(self) -> None:
        """Make it, and let go whoever waits for it."""
        try:
            self._outcome = Known(self._make())
        except BaseException as error:  # noqa: BLE001  handed to whoever asks for the result
            self._outcome = Raised(error)
        self._done.release()

    def result(self) -> T:
        """As `StepFuture.result`."""
        with self._done:
            return self._outcome.result()


class StepThread:
    """Does one thing after the other, in the order they came.

    Not an executor: its futures cost a tenth of a small model's step, and an interpreter that ends waits for
    its thread, be it in a load that nobody wants any more or in a step that hangs.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Coming[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="penstock-step", daemon=True)
        self._thread.start()

    def submit(self, make: Callable[[], T]) -> StepFuture[T]:
        """Have `make` called after all that was submitted before; return what will come of it."""
        coming = Coming(make)
        self._waiting.put(coming)
        return coming

    def close(self) -> None:
        """Wait until all that was submitted is done; nothing may be submitted from now on."""
        self._waiting.put(None)
        self._thread.join()

    def _live(self) -> None:
        while (coming := self._waiting.get()) is not None:
            coming.make()
            del coming  # a thread that waits keeps nobody's plan


class InlineRunner:
    """Depth 0: `submit` returns when the step is done."""

    depth = 0

    def __init__(self, step: StepExecutor) -> None:
        self._step = step

    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        """As `loop.Runner.submit`."""
        try:
            return Known(self._step.run(plan, inputs))
        except Exception as error:  # noqa: BLE001  handed to whoever asks for the result
            return Raised(error)

    def close(self) -> None:
        """Nothing is held."""


class ThreadRunner:
    """Depth 1: one thread of its own, in which the step must also have been opened."""

    depth = 1

    def __init__(self, step: StepExecutor, thread: StepThread) -> None:
        self._step = step
        self._thread = thread

    def submit(
        self, plan: StepPlan, inputs: Callable[[], SamplingInputs]
    ) -> StepFuture[StepResult]:
        """As `loop.Runner.submit`."""
        return self._thread.submit(partial(self._step.run, plan, inputs))

    def close(self) -> None:
        """As `loop.Runner.close`."""
        self._thread.close()
