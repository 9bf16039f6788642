"""A saturation-based autoscaler like llm-d's workload-variant-autoscaler. Pure.

Every 60 s it takes the longest queue of each pod in the last minute (`max by (pod) (max_over_time(vllm:num_requests_waiting[1m]))`) and
averages the spare queue of the unsaturated replicas, out of a threshold of 5: below 3 it adds a replica, and it removes one if the others
would keep 3. It changes nothing while pods load. One-shot serving has no KV cache, so only its queue rule applies.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided, per_pod, queue_depth

SATURATED_QUEUE = 5.0
SPARE_TRIGGER = 3.0
WVA_SECONDS = 60.0
PEAK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class VariantState:
    """Time of the last evaluation, and the queues of the last minute."""

    looked: float
    seen: tuple[tuple[float, Mapping[str, float]], ...] = ()
    """(time, waiting requests by pod)."""


class VariantLike:
    """Saturation by queue length."""

    def __init__(self, cap: int | None = None) -> None:
        self.name = "wva"
        self._cap = cap

    def initial(self, now: float) -> VariantState:
        """Return the state of an autoscaler that has just started."""
        return VariantState(looked=now - WVA_SECONDS)

    def step(
        self, state: VariantState, observed: LawInput, now: float
    ) -> tuple[VariantState, Decision]:
        """Add or remove one replica."""
        current = observed.replicas
        recent = [entry for entry in state.seen if now - entry[0] < PEAK_SECONDS]
        state = replace(state, seen=(*recent, (now, per_pod(observed, queue_depth))))
        peaks = _peaks(state, observed)
        loading = any(not pod.ready and not pod.terminating for pod in observed.pods)
        if not peaks or loading or now - state.looked < WVA_SECONDS:
            return state, decided(observed, current, self._cap, seen=bool(peaks))
        return replace(state, looked=now), decided(observed, current + _move(peaks), self._cap)


def _peaks(state: VariantState, observed: LawInput) -> list[float]:
    """Return the longest queue of every pod that stays and has a sample of the last minute."""
    staying = {pod.uid for pod in observed.pods if not pod.terminating}
    peaks = dict[str, float]()
    for _, queues in state.seen:
        for uid in queues.keys() & staying:
            peaks[uid] = max(queues[uid], peaks.get(uid, 0.0))
    return list(peaks.values())


def _move(queues: list[float]) -> int:
    spare = [SATURATED_QUEUE - queue for queue in queues if queue < SATURATED_QUEUE]
    if not spare or sum(spare) / len(spare) < SPARE_TRIGGER:
        return 1
    queued = sum(SATURATED_QUEUE - room for room in spare)
    if len(spare) >= 2 and SATURATED_QUEUE - queued / (len(spare) - 1) >= SPARE_TRIGGER:
        return -1
    return 0
