"""`variant_figures`: what the law of one variant measured, for the decision on the whole pool. Pure.

The law of a variant reads its own pods. It plans their cap and learns their curve; its count is not used, since a demand and
its headroom exist only for all variants together (`demand.py`).
"""

from penstock_operator.decide.scaling.capacity_at_objective.observations import (
    Tick,
    late_share,
    observe_tick,
    ready_capacity,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import UTILIZATION
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.scaling.reasons import CapReason, ReplicasReason
from penstock_operator.variants import BatchShape, VariantFigures, VariantLoad

GUARDS = (ReplicasReason.QUEUE_DEPTH, ReplicasReason.HIGH_PERCENT)
"""Terms of a law by targets that users set."""


def variant_figures(
    state: CapacityState, observed: LawInput, decision: Decision, per_hour: float | None, now: float
) -> VariantFigures:
    """Return the figures of a variant after the step of its law: `state` and `decision` are its results."""
    seen = decision.observations
    each, startup = seen.capacity_per_replica, seen.startup_seconds
    if each is None:
        return VariantFigures(None, None, per_hour, startup)
    tick = observe_tick(state, observed, now)
    feasible = decision.cap_term != CapReason.OBJECTIVE_INFEASIBLE
    return VariantFigures(
        capacity=UTILIZATION * each if feasible else 0.0,
        load=_load(state, tick, decision, UTILIZATION * each),
        per_hour=per_hour,
        startup_seconds=startup,
        shape=_shape(state, tick),
    )


def _load(
    state: CapacityState, tick: Tick, decision: Decision, capacity: float
) -> VariantLoad | None:
    model, seen = tick.model, tick.load
    if not decision.metrics_available or not decision.demands or model is None:
        return None
    if seen.recent is None:
        return None
    cap, counted = tick.observed.cap_for_count(state.plan.cap), state.lateness.counted
    guarded = [need.replicas for need in decision.demands if need.term in GUARDS]
    return VariantLoad(
        time=tick.now,
        recent=seen.recent,
        newest=seen.recent if seen.newest is None else seen.newest,
        overlapping=seen.overlapping,
        excess=seen.backlog - model.completed(cap) * len(tick.observed.ready),
        serving=ready_capacity(tick, model, cap),
        settled=counted.total,
        on_time=counted.good,
        dispersion=state.dispersion,
        unevenness=state.unevenness,
        imbalance=max(state.imbalance, 1.0),
        guarded=capacity * max(guarded, default=0.0),
    )


def _shape(state: CapacityState, tick: Tick) -> BatchShape | None:
    model, cap = tick.model, tick.observed.cap_for_count(state.plan.cap)
    seconds = None if model is None else model.seconds(cap)
    if model is None or not seconds or late_share(state, tick, model, cap) is None:
        return None
    return BatchShape(cap, seconds, model.tail_ratio, model.intercept(cap))
