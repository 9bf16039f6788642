"""`LawAtZero`: a law with the operator's step to zero replicas around it. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from penstock_operator.decide.scaling.law import Decision, Law, LawInput
from penstock_operator.decide.scaling.zero import Activity, observe_activity, zero_step
from penstock_operator.observed import GatewayView


class LawAtZero:
    """A law of a pool with `minReplicas` 0, whose gateway holds requests at zero; the law itself decides from one up."""

    def __init__(self, law: Law[Any], idle_seconds: int, held_requests: Callable[[], int]) -> None:
        """`held_requests` returns the number of requests that the gateway holds."""
        self.name = law.name
        self._law = law
        self._idle_seconds = idle_seconds
        self._held_requests = held_requests

    def initial(self, now: float) -> tuple[Any, Activity | None]:
        """Return the initial state of the law."""
        return self._law.initial(now), None

    def step(
        self, state: tuple[Any, Activity | None], observed: LawInput, now: float
    ) -> tuple[tuple[Any, Activity], Decision]:
        """Return the law's step from one replica up, else the step around it."""
        inner, before = state
        settings = replace(observed.settings, min_replicas=max(observed.settings.min_replicas, 1))
        inner, decision = self._law.step(inner, observed._replace(settings=settings), now)
        gateway = GatewayView(holding=True, held_requests=self._held_requests())
        activity = observe_activity(before, observed, gateway.held_requests, now)
        step = zero_step(decision, self._idle_seconds, observed, gateway, activity)
        return (inner, activity), step
