"""`ThreadInbox`: the queue of messages to an engine that runs in another thread than their sender."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

M = TypeVar("M")


class ThreadInbox(Generic[M]):
    """A deque under a condition that neither side holds while it works."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: deque[M] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def send(self, *messages: M) -> None:
        """Add messages, to be received together; ignored once closed."""
        with self._changed:
            if not self._closed:
                self._messages.extend(messages)
                self._changed.notify()

    def close(self) -> None:
        """Accept no more messages; those sent before are still received."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def receive(self, until: float | None) -> Sequence[M] | None:
        """Return all waiting messages; an empty sequence at `until`, None once closed and empty."""
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
