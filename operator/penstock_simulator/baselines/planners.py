"""Profile-based and saturation-based planners: one like NVIDIA Dynamo's, one like llm-d's workload-variant-autoscaler. Pure.

Dynamo-like: every 180 s, replicas = rate of the last interval (its constant predictor; ARIMA is the vendor's default) / capacity at the
objective from profiling, which is given here as the true curve at the largest batch that takes at most 0.45 of the objective.
WVA-like: the saturation engine every 60 s: spare queue of unsaturated replicas below 3 of a threshold of 5 adds one, one is removed if the
rest would keep that spare; nothing changes while pods load. There is no KV cache in one-shot serving, so only its queue rule applies.
"""

from dataclasses import dataclass, replace
from math import ceil

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided, per_pod, queue_depth
from penstock_simulator.batch_time import ServiceModel

BATCH_SHARE = 0.45


@dataclass(frozen=True, slots=True)
class DynamoState:
    """Counters at the last adjustment."""

    adjusted: float
    received: tuple[tuple[str, float], ...] = ()


class DynamoLike:
    """Throughput planning by profile."""

    def __init__(self, service: ServiceModel, interval: float = 180.0) -> None:
        self.name = f"dynamo-{interval:g}"
        self._service = service
        self._interval = interval

    def initial(self, now: float) -> DynamoState:
        """Return the state of a planner that has just started."""
        return DynamoState(adjusted=now - self._interval)

    def step(
        self, state: DynamoState, observed: LawInput, now: float
    ) -> tuple[DynamoState, Decision]:
        """Adjust the count once per interval."""
        counters = per_pod(observed, lambda sample: sample.rows_received)
        if not counters or now - state.adjusted < self._interval:
            return state, decided(observed, observed.replicas, None, seen=bool(counters))
        after = DynamoState(now, tuple(counters.items()))
        if not state.received:
            return after, decided(observed, observed.replicas, None)
        before = dict(state.received)
        grown = sum(value - before.get(uid, 0.0) for uid, value in counters.items())
        rate = max(grown, 0.0) / (now - state.adjusted)
        return after, decided(observed, ceil(rate / self._capacity(observed)), None)

    def _capacity(self, observed: LawInput) -> float:
        settings = observed.settings
        top = settings.size_max
        if settings.objective_milliseconds is not None:
            target = BATCH_SHARE * settings.objective_milliseconds / 1000.0
            top = min(top, max(1, int((target - self._service.a) / self._service.c)))
        return self._service.capacity(top)


SATURATED_QUEUE = 5.0
SPARE_TRIGGER = 3.0
WVA_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class VariantState:
    """Time of the last evaluation."""

    looked: float


class VariantLike:
    """Saturation by queue length."""

    name = "wva"

    def initial(self, now: float) -> VariantState:
        """Return the state of an autoscaler that has just started."""
        return VariantState(looked=now - WVA_SECONDS)

    def step(
        self, state: VariantState, observed: LawInput, now: float
    ) -> tuple[VariantState, Decision]:
        """Add or remove one replica."""
        current = observed.replicas
        queues = list(per_pod(observed, queue_depth).values())
        loading = any(not pod.ready and not pod.terminating for pod in observed.pods)
        if not queues or loading or now - state.looked < WVA_SECONDS:
            return state, decided(observed, current, None, seen=bool(queues))
        return replace(state, looked=now), decided(observed, current + _move(queues), None)


def _move(queues: list[float]) -> int:
    spare = [SATURATED_QUEUE - queue for queue in queues if queue < SATURATED_QUEUE]
    if not spare or sum(spare) / len(spare) < SPARE_TRIGGER:
        return 1
    queued = sum(SATURATED_QUEUE - room for room in spare)
    if len(spare) >= 2 and SATURATED_QUEUE - queued / (len(spare) - 1) >= SPARE_TRIGGER:
        return -1
    return 0
