"""The Knative pod autoscaler (KPA). Pure.

Source: Knative serving `pkg/autoscaler/scaling/autoscaler.go`. Defaults: target concurrency 100 at 70 % utilization, stable window
60 s, panic window 10 % of it, panic at 200 % of capacity, at most x1000 up and /2 down. Its queue-proxy samples every second and
decides every 2 s; here both happen once a tick, on concurrency as the pods report it.
"""

from dataclasses import dataclass, replace
from math import ceil

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided, in_flight, per_pod

STABLE_SECONDS = 60.0
PANIC_SECONDS = 6.0
PANIC_THRESHOLD = 2.0
UTILIZATION = 0.7


@dataclass(frozen=True, slots=True)
class KnativeState:
    """Concurrency in the stable window, and the start of panic mode, if any."""

    panic_since: float | None
    """The autoscaler starts in panic mode, so that it does not scale down before the first samples."""
    seen: tuple[tuple[float, float], ...] = ()
    panic_max: int = 0


class Knative:
    """KPA on concurrency."""

    def __init__(self, target: float = 100.0, cap: int | None = None) -> None:
        self.name = f"knative-{target:g}"
        self._target = target * UTILIZATION
        self._cap = cap

    def initial(self, now: float) -> KnativeState:
        """Return the state of an autoscaler that has just started."""
        return KnativeState(panic_since=now)

    def step(
        self, state: KnativeState, observed: LawInput, now: float
    ) -> tuple[KnativeState, Decision]:
        """Scale to mean concurrency over the stable window, or over the panic window in panic mode."""
        values = per_pod(observed, in_flight)
        if not values:
            return state, decided(observed, observed.replicas, self._cap, seen=False)
        recent = [entry for entry in state.seen if now - entry[0] < STABLE_SECONDS]
        state = replace(state, seen=(*recent, (now, sum(values.values()))))
        ready = max(1, sum(pod.ready and not pod.terminating for pod in observed.pods))
        stable, panic = (
            self._desired(state, now, span) for span in (STABLE_SECONDS, PANIC_SECONDS)
        )
        stable = max(stable, ready // 2)
        if panic / ready >= PANIC_THRESHOLD:
            state = replace(state, panic_since=now)
        elif state.panic_since is not None and now - state.panic_since > STABLE_SECONDS:
            state = replace(state, panic_since=None, panic_max=0)
        if state.panic_since is None:
            return state, decided(observed, stable, self._cap)
        most = max(state.panic_max, panic, stable, observed.replicas)
        return replace(state, panic_max=most), decided(observed, most, self._cap)

    def _desired(self, state: KnativeState, now: float, span: float) -> int:
        counts = [count for when, count in state.seen if now - when < span]
        return ceil(sum(counts) / len(counts) / self._target)
