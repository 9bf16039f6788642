"""The thread that steps run in where they overlap with planning."""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from penstock_runtime.engine.continuous.outcomes import Coming, Outcome

T = TypeVar("T")


class StepThread:
    """Does one thing after the other, in the order they came.

    Not an executor: its futures cost a tenth of a small model's step, and an interpreter that ends waits for
    its thread, be it in a load that nobody wants any more or in a step that hangs.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[Coming[Any] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="penstock-step", daemon=True)
        self._thread.start()

    def submit(self, make: Callable[[], T]) -> Outcome[T]:
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
