"""Where messages wait for a generation engine that works in another thread than their sender."""

import threading
from collections import deque
from collections.abc import Callable, Sequence

from penstock_runtime.engine.continuous.messages import ToGeneration


class ThreadInbox:
    """Messages on their way in: a deque under a condition that neither side holds while it works."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: deque[ToGeneration] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def send(self, *messages: ToGeneration) -> None:
        """Add messages, to be received together; ignored once closed."""
        with self._changed:
            if not self._closed:
                self._messages.extend(messages)
                self._changed.notify()

    def close(self) -> None:
        """Take no more; what was sent before is still received."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def receive(self, until: float | None) -> Sequence[ToGeneration] | None:
        """As `generation.loop.Inbox.receive`."""
        with self._changed:
            while not self._messages and not self._closed:
                left = None if until is None else until - self._clock()
                if left is not None and left <= 0.0:
                    return ()
                self._changed.wait(left)
            if not self._messages:
                return None
            messages, self._messages = self._messages, deque()
            return messages
