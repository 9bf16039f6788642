"""The HorizontalPodAutoscaler, and KEDA, which drives one with an external metric. Pure.

Source: Kubernetes `pkg/controller/podautoscaler/replica_calculator.go` and `horizontal.go`. Defaults: sync 15 s, tolerance
0.1, scale-up at most the larger of 100 % and 4 pods in 15 s without stabilization, scale-down stabilized over 300 s.
KEDA passes the sum of a Prometheus query to an HPA as `AverageValue`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import Metric, decided, per_pod

SYNC_SECONDS = 15.0
TOLERANCE = 0.1
STABILIZATION_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class HorizontalState:
    """State of the controller between decisions."""

    synced: float
    recommended: tuple[tuple[float, int], ...] = ()
    """(time, count) of the last 300 s."""


class Horizontal:
    """An HPA on one metric: a mean per pod (Pods metric), or a sum (External, `total`)."""

    def __init__(self, name: str, metric: Metric, target: float, cap: int | None = None, *, total: bool = False) -> None:  # fmt: skip
        self.name = name
        self._metric = metric
        self._target = target
        self._cap = cap
        self._total = total

    def initial(self, now: float) -> HorizontalState:
        """Return the state of a controller that has just started."""
        return HorizontalState(synced=now - SYNC_SECONDS)

    def step(
        self, state: HorizontalState, observed: LawInput, now: float
    ) -> tuple[HorizontalState, Decision]:
        """Decide every 15 s; without metrics the count stays."""
        current = observed.replicas
        values = per_pod(observed, self._metric)
        if now - state.synced < SYNC_SECONDS or not values:
            return state, decided(observed, current, self._cap, seen=bool(values))
        wished = self._external(values, current) if self._total else self._pods(values, observed)
        kept = state.recommended or ((now, current),)  # as `recordInitialRecommendation`
        recent = [entry for entry in kept if now - entry[0] < STABILIZATION_SECONDS]
        after = replace(state, synced=now, recommended=(*recent, (now, wished)))
        if wished < current:
            wished = min(max(count for _, count in after.recommended), current)
        allowed = max(2 * current, current + 4)
        return after, decided(observed, min(wished, allowed), self._cap)

    def _external(self, values: Mapping[str, float], current: int) -> int:
        total = sum(values.values())
        ratio = total / (self._target * max(current, 1))
        return current if abs(ratio - 1.0) <= TOLERANCE else ceil(total / self._target)

    def _pods(self, values: Mapping[str, float], observed: LawInput) -> int:
        current = observed.replicas
        ratio = sum(values.values()) / len(values) / self._target
        staying = [pod.uid for pod in observed.pods if not pod.terminating]
        missing = len([uid for uid in staying if uid not in values])
        if not missing:
            return current if abs(ratio - 1.0) <= TOLERANCE else ceil(ratio * len(values))
        return self._with_missing(values, missing, ratio, current)

    def _with_missing(
        self, values: Mapping[str, float], missing: int, ratio: float, current: int
    ) -> int:
        """Treat pods without a metric as idle when scaling up, and as on target when scaling down."""
        filled = sum(values.values()) + (missing * self._target if ratio < 1.0 else 0.0)
        again = filled / (len(values) + missing) / self._target
        turned = (ratio < 1.0 < again) or (again < 1.0 < ratio)
        if abs(again - 1.0) <= TOLERANCE or turned:
            return current
        count = ceil(again * (len(values) + missing))
        grew = again > 1.0
        return max(count, current) if grew else min(count, current)
