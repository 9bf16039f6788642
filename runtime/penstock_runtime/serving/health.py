"""`Health`: the stage of a pod, and whether it accepts requests."""

from enum import StrEnum
from typing import Final

from penstock_runtime.errors import NotServing


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
    Stage.LOADING: ("Loading", "the model is being loaded: try again soon"),
    Stage.DRAINING: ("Draining", "this pod is stopping: try again, another one answers"),
    Stage.DEAD: ("EngineDied", "the engine of this pod has died: try again elsewhere"),
}
"""Reason and message of the rejection, by stage."""


class Health:
    """The stage of the pod, its consequences for requests, and the cause of the engine's death."""

    def __init__(self) -> None:
        self.death: str | None = None
        self.ready = False
        """Whether `/readyz` is 200: the model is warm and the pod is not stopping."""
        self.closing = False
        """Whether every response closes its connection, so that clients connect to other pods."""
        self.rejecting = False
        """Whether requests that are not yet submitted are rejected."""
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
        self.closing = stage not in (Stage.LOADING, Stage.SERVING)
        self.rejecting = stage in (Stage.DRAINING, Stage.DEAD)

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
