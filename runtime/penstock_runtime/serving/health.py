"""`Health`: the stage of a pod and whether it accepts requests; `EngineWatch`: detection of a stuck engine.

A saturated engine is not stuck, so a running step may take 20 times its prediction. An idle engine ticks once a second,
so a freeze is detected before a request reaches it.
"""

import asyncio
from enum import StrEnum
from typing import Final

from penstock_runtime.engine.link.base import Heartbeat
from penstock_runtime.errors import NotServing

STUCK_FACTOR: Final = 20.0
"""Multiple of its predicted duration that a step may take."""
ASLEEP_SECONDS: Final = 5.0
"""Interval between two checks above which this process was suspended, and perhaps the engine too."""


class Stage(StrEnum):
    """The life of a pod; it only moves forward."""

    LOADING = "Loading"
    SERVING = "Serving"
    CLOSING = "Closing"
    """Stopping, but still accepting: the removal of endpoints lags."""
    DRAINING = "Draining"
    """Completing pending requests, rejecting new ones."""
    DEAD = "EngineDied"


_REJECTIONS: Final = {
    Stage.LOADING: ("Loading", "the model is loading: retry shortly"),
    Stage.DRAINING: ("Draining", "this pod is terminating: retry, and another pod will respond"),
    Stage.DEAD: ("EngineDied", "the engine of this pod has died: try again elsewhere"),
}
"""Reason and message of the rejection, by stage."""


class Health:
    """The stage of the pod, its consequences for requests, and the cause of the engine's death."""

    def __init__(self) -> None:
        self.death: str | None = None
        self.served = False
        """Whether the pod has ever been in stage Serving."""
        self.probed_at: float | None = None
        """Time of the kubelet's last readiness probe, by the pod's clock; None before the first."""
        self.ready = False
        """Whether `/readyz` is 200: the model is warm and the pod is not stopping."""
        self.closing = False
        """Whether every response closes its connection, so that clients connect to other pods."""
        self.rejecting = False
        """Whether requests that are not yet submitted are rejected."""
        self.loaded = asyncio.Event()
        """Set once the pod leaves the stage Loading."""
        self.stage = Stage.LOADING

    @property
    def stage(self) -> Stage:
        """The stage of the pod."""
        return self._stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        """Set the stage and its consequences, which every request reads."""
        self._stage = stage
        self.ready = stage is Stage.SERVING
        self.served = self.served or self.ready
        self.closing = stage not in (Stage.LOADING, Stage.SERVING)
        self.rejecting = stage in (Stage.DRAINING, Stage.DEAD)
        if stage is not Stage.LOADING:
            self.loaded.set()

    @property
    def stopping(self) -> bool:
        """Whether the pod served and now stops, its engine alive."""
        return self.served and self._stage in (Stage.CLOSING, Stage.DRAINING)

    def check_serving(self) -> None:
        """Check that this pod takes requests.

        Raises:
            NotServing: it loads, drains, or lost its engine.
        """
        if self._stage in _REJECTIONS:
            raise NotServing(*_REJECTIONS[self._stage])

    def die(self, reason: str) -> None:
        """Record that the engine has died."""
        self.stage = Stage.DEAD
        self.death = reason


def why_stuck(
    heartbeat: Heartbeat,
    waiting_since: float | None,
    patience_seconds: float,
    delay_seconds: float,
    now: float,
) -> str | None:
    """Return why the engine is stuck, or None if it is not.

    `waiting_since`: start of the time in which the engine has always had requests; None: it has none.
    `delay_seconds`: time for which it may delay an incomplete batch.
    """
    if heartbeat.busy:
        allowed = max(patience_seconds, STUCK_FACTOR * heartbeat.predicted_seconds)
        silent = now - heartbeat.last_step
        if silent <= allowed:
            return None
        predicted = heartbeat.predicted_seconds
        return (
            f"no progress for {silent:.0f} s in a step that was predicted to take {predicted:.3g} s"
        )
    silent = now - heartbeat.alive_at
    if silent > patience_seconds:
        return f"no sign of life for {silent:.0f} s while idle"
    if waiting_since is None:
        return None
    silent = now - max(heartbeat.last_step, waiting_since)
    if silent > patience_seconds + delay_seconds:
        return f"requests wait and no step ran for {silent:.0f} s"
    return None


class EngineWatch:
    """Periodic checks of the engine; time in which this process was suspended does not count."""

    def __init__(self, patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._looked_at = float("-inf")
        self._awake_since = float("-inf")

    def look(
        self, heartbeat: Heartbeat, waiting_since: float | None, delay_seconds: float, now: float
    ) -> str | None:
        """Return why the engine is stuck, or None if it is not."""
        if now - self._looked_at > ASLEEP_SECONDS:
            self._awake_since = now
        self._looked_at = now
        since_awake = Heartbeat(
            max(heartbeat.last_step, self._awake_since),
            heartbeat.busy,
            heartbeat.predicted_seconds,
            max(heartbeat.alive_at, self._awake_since),
        )
        return why_stuck(since_awake, waiting_since, self._patience_seconds, delay_seconds, now)
