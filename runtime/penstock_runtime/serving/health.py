"""Whether this pod is alive, and whether it wants requests."""

from enum import StrEnum
from typing import Final

from penstock_runtime.errors import NotServing


class Stage(StrEnum):
    """Where in its life a pod is; it only moves forward."""

    LOADING = "Loading"
    SERVING = "Serving"
    CLOSING = "Closing"
    """Told to stop, still accepting: the removal of endpoints lags."""
    DRAINING = "Draining"
    """Serving what it holds, refusing newcomers."""
    DEAD = "EngineDied"


_REFUSALS: Final = {
    Stage.LOADING: ("Loading", "the model is being loaded: try again soon"),
    Stage.DRAINING: ("Draining", "this pod is stopping: try again, another one answers"),
    Stage.DEAD: ("EngineDied", "the engine of this pod has died: try again elsewhere"),
}
"""Reason and message of a refusal, by the stages that refuse."""


class Health:
    """The stage, what it means to requests, and why the engine died if it did."""

    def __init__(self) -> None:
        self.death: str | None = None
        self.ready = False
        """Whether `/readyz` is 200: the model is warm and nobody told this pod to stop."""
        self.closing = False
        """Whether every answer asks its client to connect elsewhere next time."""
        self.refusing = False
        """Whether what is not yet with the engine will not get there."""
        self.stage = Stage.LOADING

    @property
    def stage(self) -> Stage:
        """Where in its life the pod is."""
        return self._stage

    @stage.setter
    def stage(self, stage: Stage) -> None:
        """Every request asks what it means, so that is worked out here."""
        self._stage = stage
        self.ready = stage is Stage.SERVING
        self.closing = stage not in (Stage.LOADING, Stage.SERVING)
        self.refusing = stage in (Stage.DRAINING, Stage.DEAD)

    def check_serving(self) -> None:
        """Return if this pod takes requests.

        Raises:
            NotServing: it loads, drains, or lost its engine.
        """
        if self._stage in _REFUSALS:
            raise NotServing(*_REFUSALS[self._stage])

    def die(self, reason: str) -> None:
        """Note that the engine is gone for good."""
        self.stage = Stage.DEAD
        self.death = reason
