"""Whether this pod is alive, and whether it wants requests."""

from enum import StrEnum
from typing import Final

from penstock_runtime.link.base import Heartbeat

STUCK_SECONDS: Final = 30.0
STUCK_FACTOR: Final = 20.0
"""Stuck = busy and no step for max(30 s, 20x predicted): a saturated engine is not a dead one."""


class Stage(StrEnum):
    """Where in its life a pod is; it only moves forward."""

    LOADING = "Loading"
    SERVING = "Serving"
    CLOSING = "Closing"
    """Told to stop, still accepting: the removal of endpoints lags."""
    DRAINING = "Draining"
    """Serving what it holds, refusing newcomers."""
    DEAD = "EngineDied"


class Health:
    """The stage, and why the engine died if it did."""

    def __init__(self) -> None:
        self.stage = Stage.LOADING
        self.death: str | None = None

    @property
    def ready(self) -> bool:
        """Whether `/readyz` is 200: the model is warm and nobody told this pod to stop."""
        return self.stage is Stage.SERVING

    @property
    def closing(self) -> bool:
        """Whether every answer asks its client to connect elsewhere next time."""
        return self.stage not in (Stage.LOADING, Stage.SERVING)

    def die(self, reason: str) -> None:
        """Note that the engine is gone for good."""
        self.stage = Stage.DEAD
        self.death = reason


def stuck(heartbeat: Heartbeat, now: float) -> bool:
    """Return whether a busy engine has made no step for longer than any batch may take."""
    allowed = max(STUCK_SECONDS, STUCK_FACTOR * heartbeat.predicted_seconds)
    return heartbeat.busy and now - heartbeat.last_step > allowed
