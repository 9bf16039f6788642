"""A profile-based planner like the predictive one of NVIDIA Dynamo. Pure.

Every 180 s, replicas = rate of the last interval (its constant predictor; ARIMA is the vendor's default) / capacity at the objective from
profiling, which is given here as the true curve at the largest batch within the cap that takes at most 0.45 of the objective.
Not simulated: its correction factors, and the default of v1.2.1, the target `throughput` with static thresholds. This planner was that of
v0.9, and is the throughput-based scaling of the target `sla` in v1.2.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import ceil

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided, per_pod
from penstock_simulator.batch_time import ServiceModel

BATCH_SHARE = 0.45


@dataclass(frozen=True, slots=True)
class DynamoState:
    """Counters at the last adjustment."""

    adjusted: float
    received: Mapping[str, float] = field(default_factory=dict)
    newest: Mapping[str, float] = field(default_factory=dict)
    """Latest counters of every pod, including deleted ones."""


class DynamoLike:
    """Throughput planning by profile."""

    def __init__(self, service: ServiceModel, interval: float = 180.0, cap: int | None = None) -> None:  # fmt: skip
        self.name = f"dynamo-{interval:g}"
        self._service = service
        self._interval = interval
        self._cap = cap

    def initial(self, now: float) -> DynamoState:
        """Return the state of a planner that has just started."""
        return DynamoState(adjusted=now - self._interval)

    def step(
        self, state: DynamoState, observed: LawInput, now: float
    ) -> tuple[DynamoState, Decision]:
        """Adjust the count once per interval."""
        counters = per_pod(observed, lambda sample: sample.rows_received)
        state = replace(state, newest={**state.newest, **counters})
        if not counters or now - state.adjusted < self._interval:
            return state, decided(observed, observed.replicas, self._cap, seen=bool(counters))
        after = DynamoState(now, state.newest, state.newest)
        if not state.received:
            return after, decided(observed, observed.replicas, self._cap)
        grown = sum(value - state.received.get(uid, 0.0) for uid, value in state.newest.items())
        rate = max(grown, 0.0) / (now - state.adjusted)
        return after, decided(observed, ceil(rate / self._capacity(observed)), self._cap)

    def _capacity(self, observed: LawInput) -> float:
        settings = observed.settings
        top = min(self._cap or settings.size_max, settings.size_max)
        if settings.objective_milliseconds is not None:
            target = BATCH_SHARE * settings.objective_milliseconds / 1000.0
            fits = (rows for rows in range(top, 0, -1) if self._service.seconds(rows) <= target)
            top = next(fits, 1)
        return self._service.capacity(top)
