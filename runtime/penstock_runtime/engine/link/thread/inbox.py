"""Inboxes of engines: `ThreadInbox` for an engine in its own thread, `LoopInbox` for one in the event loop."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.messages import SetLimits, Submit, ToEngine
from penstock_runtime.request import Request

M = TypeVar("M")


class ThreadInbox(Generic[M]):
    """A queue guarded by a condition variable, which neither side holds while it processes messages."""

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


class LoopInbox:
    """Collects messages between two turns of a batch engine in the event loop, so that they reach it together."""

    def __init__(self) -> None:
        self._messages: list[ToEngine] = []

    def add(self, message: ToEngine) -> None:
        """Add a message."""
        self._messages.append(message)

    def hand_over(self, engine: BatchEngine, now: float, *, running: bool) -> None:
        """Pass the messages to `engine`; new limits stay while a batch is `running`, because they apply to the next one."""
        messages, self._messages = self._messages, []
        requests: list[Request] = []
        for message in messages:
            if type(message) is Submit:
                requests += message.requests
                continue
            engine.admit(requests, now)
            requests = []
            if running and isinstance(message, SetLimits):
                self._messages.append(message)
            else:
                engine.take(message, now)
        engine.admit(requests, now)
