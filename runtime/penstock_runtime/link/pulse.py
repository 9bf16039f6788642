"""The heartbeat of an engine that lives in this process."""

from collections.abc import Callable

from penstock_runtime.link.base import Heartbeat


class ThreadPulse:
    """The engine's heartbeat: one reference, replaced whole, so that readers need no lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._predicted_seconds = 0.0
        self.last = Heartbeat(clock(), busy=False, predicted_seconds=0.0)

    def begin(self, predicted_seconds: float) -> None:
        """As `engine.loop.Pulse`."""
        self._predicted_seconds = predicted_seconds
        self.beat()

    def beat(self) -> None:
        """As `engine.loop.Pulse`."""
        self.last = Heartbeat(self._clock(), busy=True, predicted_seconds=self._predicted_seconds)

    def end(self) -> None:
        """As `engine.loop.Pulse`."""
        self.last = Heartbeat(self._clock(), busy=False, predicted_seconds=0.0)
