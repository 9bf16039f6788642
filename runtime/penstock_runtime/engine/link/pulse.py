"""The heartbeat of an engine that lives in this process."""

from collections.abc import Callable
from dataclasses import replace

from penstock_runtime.engine.link.base import Heartbeat


class ThreadPulse:
    """The engine's heartbeat: one reference, replaced whole, so that readers need no lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._predicted_seconds = 0.0
        now = clock()
        self.last = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def begin(self, predicted_seconds: float) -> None:
        """As `engine.dynamic.loop.Pulse`."""
        self._predicted_seconds = predicted_seconds
        self.beat()

    def beat(self) -> None:
        """As `engine.dynamic.loop.Pulse`."""
        now = self._clock()
        self.last = Heartbeat(
            now, busy=True, predicted_seconds=self._predicted_seconds, alive_at=now
        )

    def end(self) -> None:
        """As `engine.dynamic.loop.Pulse`."""
        now = self._clock()
        self.last = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def tick(self) -> None:
        """As `engine.dynamic.loop.Pulse`."""
        self.last = replace(self.last, alive_at=self._clock())
