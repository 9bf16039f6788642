"""The second law: capacity at the objective, forecast to the cold start (docs/design/control-law.md#capacityatobjective). Pure.

Each tick: keep the new samples, learn each pod's curve and each start's length, judge whether the pool can be
seen at all; then plan the largest batch of which two fit the objective, and count the replicas that demand
needs at that batch when a replica asked for now would serve. Absent signals move nothing.
"""

from dataclasses import replace
from math import isfinite

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import (
    SPARE,
    PlanInput,
    cap_move,
    max_batch_seconds,
    max_wait_seconds,
    next_plan,
    spare_seconds,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.decode_capacity import (
    initial_rows,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    curve_in_use,
    off_curve,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import started_seconds
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    ALLOWED_SHARE,
    Lateness,
    cheapest_count,
    reprice,
)
from penstock_operator.decide.scaling.capacity_at_objective.observations import (
    Tick,
    late_share,
    predicted_p99_seconds,
    ready_capacity,
    tick,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    UTILIZATION,
    Count,
    CountInput,
    hold_seconds,
    largest_need,
    needs,
    next_count,
    noted,
    utilization,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import (
    GOOD_TICKS,
    CapacityState,
    smooth,
    with_samples,
)
from penstock_operator.decide.scaling.law import (
    Decision,
    DemandOutlook,
    LawInput,
    LawObservations,
    ReplicaDemand,
)
from penstock_operator.decide.scaling.reasons import (
    CapMove,
    CapReason,
    ReplicasMove,
    ReplicasReason,
)
from penstock_operator.decide.scaling.signals.aggregates import MeasuredDemand
from penstock_operator.decide.scaling.signals.windows import has_new_samples
from penstock_operator.decide.scaling.utilization_band.batch_cap import (
    batch_target_seconds,
    clamp_cap,
)
from penstock_operator.decide.scaling.utilization_band.replicas import bounds_only

TICK_SECONDS = 5.0
FELT = 0.85
"""A forecast that was too low hurt if the Ready pods were busier than this."""
MIN_COUNT = 0.2
"""Of a replica: the search for a count has to begin somewhere."""


class CapacityAtObjective:
    """The second law."""

    name = "CapacityAtObjective"

    def initial(self, now: float) -> CapacityState:
        """Return the state of a pool just met."""
        return CapacityState(Count(begun=now))

    def step(
        self, state: CapacityState, observed: LawInput, now: float
    ) -> tuple[CapacityState, Decision]:
        """Return the next state and the decision; never raises, whatever the signals."""
        held = state.windows
        state = with_samples(state, observed, now)
        news = has_new_samples(held, state.windows)
        found = tick(state, observed, now)
        state = replace(state, good_ticks=_good_ticks(state.good_ticks, found.demand, news=news))
        if state.good_ticks < GOOD_TICKS or found.demand.ready == 0:
            state = replace(state, count=replace(state.count, begun=now, needs=()))
            return state, _blind(found)
        if found.model is None:
            return state, _without_curve(state, found)
        return _decided(state, found, found.model, news=news)


def _good_ticks(before: int, found: MeasuredDemand, *, news: bool) -> int:
    """Count only rounds with news; without a Ready pod there is nothing to see, neither good nor bad."""
    if found.ready == 0:
        return before
    if found.absent:
        return 0
    return min(before + 1, GOOD_TICKS) if news else before


def _blind(found: Tick) -> Decision:
    """Bounds hold at once, signals or none; all else stays."""
    why = "signals are absent"
    cap = _held_cap(found, CapReason.SIGNALS_ABSENT, why)
    move = _held_count(found, ReplicasReason.SIGNALS_ABSENT, why)
    return replace(_decision(found, cap, move), metrics_available=False)


def _without_curve(state: CapacityState, found: Tick) -> Decision:
    """No batch was ever seen: all stays, but for the queue depth that the user asked for himself."""
    why = "no batch was seen yet, or too few answers"
    settings, waiting = found.observed.settings, found.demand.waiting or 0.0
    move = _held_count(found, ReplicasReason.CURVE_UNKNOWN, why)
    target = settings.guards.target_per_replica
    if target is not None and (wanted := -int(-waiting // target)) > move.replicas:
        text = f"{waiting:.0f} requests wait, over {target} per replica"
        granted = max(min(wanted, settings.max_replicas), move.replicas)
        move = ReplicasMove(granted, ReplicasReason.QUEUE_DEPTH, text)
    cap = _unproven_cap(state, found) or _held_cap(found, CapReason.CURVE_UNKNOWN, why)
    return _decision(found, cap, move)


def _unproven_cap(state: CapacityState, found: Tick) -> CapMove | None:
    """Return the cap by the steps that pods timed at load, until answers have ended; None where no pod generates text."""
    steps, settings = tuple(state.step_curves.pods.values()), found.observed.settings
    if not steps:
        return None
    token = settings.output_token_milliseconds
    longest = None if token is None else SPARE * token / 1000
    bound = settings.size_max if found.memory_bound is None else found.memory_bound
    cap = clamp_cap(initial_rows(steps, longest, bound), settings)
    why = "by the steps timed at load: too few answers have ended yet"
    return CapMove(cap, CapReason.CURVE_UNKNOWN, why)


def _held_cap(found: Tick, term: CapReason, why: str) -> CapMove:
    """Return the published cap inside the range in force, or the first one."""
    settings, cap = found.observed.settings, found.observed.cap
    if cap is None:
        first = clamp_cap(settings.size_min, settings)
        return CapMove(first, CapReason.FIRST_CAP, "the first cap is size.min")
    bounded = clamp_cap(cap, settings)
    if bounded == cap:
        return CapMove(cap, term, why)
    edited = CapReason.SIZE_MAX if bounded < cap else CapReason.SIZE_MIN
    text = f"batching.size allows {settings.size_min} to {settings.size_max}"
    return CapMove(bounded, edited, text)


def _held_count(found: Tick, term: ReplicasReason, why: str) -> ReplicasMove:
    replicas = found.observed.replicas
    return bounds_only(found.observed.settings, replicas) or ReplicasMove(replicas, term, why)


def _decided(
    state: CapacityState, found: Tick, curve: CapacityModel, *, news: bool
) -> tuple[CapacityState, Decision]:
    state = smooth(state, found.load, found.now) if news else state
    state = replace(state, off_curve=off_curve(state.off_curve, found.settled, curve))
    wanted = _plan_input(state, found, curve)
    state = replace(state, plan=next_plan(state.plan, wanted, found.now))
    cap = cap_move(state.plan, wanted)
    state, seen = _count_input(state, found, curve, news=news)
    if seen is None:
        why = "too few samples for a rate yet"
        return state, _decision(found, cap, _held_count(found, ReplicasReason.STEADY, why))
    need = largest_need(seen)
    hold = hold_seconds(found.observed.settings, found.startup_seconds)
    state = replace(state, count=noted(state.count, need.surely, hold, found.now))
    move = next_count(state.count, seen, need, found.now)
    decision = _decision(found, cap, move)
    return state, replace(
        decision,
        observations=_with_plan(decision.observations, state, curve, seen),
        demands=tuple(ReplicaDemand(one.term, one.exact) for one in needs(seen)),
        outlook=_outlook(state, curve, seen),
    )


def _plan_input(state: CapacityState, found: Tick, curve: CapacityModel) -> PlanInput:
    return PlanInput(
        settings=found.observed.settings,
        model=curve,
        memory_bound=found.memory_bound,
        settled=state.settled_since is not None,
        settled_p99_seconds=found.settled.batch_p99_seconds,
        starting=found.demand.ready < found.observed.replicas,
        backlog_per_pod=found.load.backlog / max(found.demand.sampled, 1),
    )


def _count_input(
    state: CapacityState, found: Tick, curve: CapacityModel, *, news: bool
) -> tuple[CapacityState, CountInput | None]:
    """Return the state with the forecaster moved on, and what the count is decided from."""
    settings, cap = found.observed.settings, state.plan.cap or 1
    rate = found.load.recent
    each = curve.capacity(cap)
    if rate is None or not each:
        return state, None
    horizon = found.startup_seconds + TICK_SECONDS
    seen = CountInput(
        settings=settings,
        replicas=found.observed.replicas,
        ready=found.demand.ready,
        unmeasured=found.demand.unmeasured,
        waiting=found.demand.waiting or 0.0,
        load=found.load,
        imbalance=max(state.imbalance, 1.0),
        forecast=0.0,
        capacity_each=each,
        capacity_ready=ready_capacity(state, found, curve, cap),
        utilization_target=UTILIZATION,
        startup_seconds=found.startup_seconds,
        started_seconds=started_seconds(state.startup, found.startup_seconds, found.now),
        next_batch=curve.ended(cap) * found.demand.ready,
        spare_seconds=max_wait_seconds(settings, curve.steps),
        uneven=1.0 if late_share(state, found, curve, cap) else max(state.imbalance, 1.0),
    )
    if news:
        busy = utilization(seen)
        sample = forecast.DemandSample(
            rate,
            found.load.newest if found.load.newest is not None else rate,
            felt=busy > FELT,
            judged=_judged(state, found) and state.plan.bridge is None,
        )
        forecaster = forecast.advance(state.forecaster, sample, horizon, found.now)
        state = replace(state, forecaster=forecaster, lateness=_priced(state, found, curve, busy))
    expected, share = _expected(state, found, curve, horizon)
    return state, replace(seen, forecast=expected, utilization_target=share)


def _expected(
    state: CapacityState, found: Tick, curve: CapacityModel, horizon: float
) -> tuple[float, float]:
    """Return the demand to expect and the utilisation to aim at; without an objective, a demand seldom exceeded."""
    cap = state.plan.cap or 1
    late, each = late_share(state, found, curve, cap), curve.capacity(cap)
    expected = forecast.expected_demand(state.forecaster, horizon)
    if late is None or not each or expected <= 0:
        return forecast.upper_demand(state.forecaster, horizon), UTILIZATION
    likely = forecast.likely_demands(state.forecaster, expected)
    demands = [(chance, one / each) for chance, one in likely]
    least = max(expected / each / UTILIZATION, MIN_COUNT)
    count = cheapest_count(demands, least, state.lateness.lateness_price, late)
    return expected, expected / each / count


def _priced(state: CapacityState, found: Tick, curve: CapacityModel, busy: float) -> Lateness:
    """Return the lateness with its price moved by what was late; where pods do not tell, by what must have been."""
    if not _judged(state, found):
        return state.lateness
    late = state.late
    if late is None:
        predicted = late_share(state, found, curve, state.plan.cap or 1)
        if predicted is None:
            return state.lateness
        late = (predicted(max(found.demand.ready, 1)).at(busy) - ALLOWED_SHARE) * TICK_SECONDS
    return reprice(state.lateness, late)


def _judged(state: CapacityState, found: Tick) -> bool:
    """Return whether a miss is the law's own: more could be had, and would help, and has had time to start."""
    seen = found.observed
    free = seen.replicas < seen.settings.max_replicas and not seen.limited
    feasible = state.plan.term is not CapReason.OBJECTIVE_INFEASIBLE
    begun = state.forecaster.begun
    own = begun is not None and found.now - begun > found.startup_seconds
    return free and feasible and own


def _decision(found: Tick, cap: CapMove, replicas: ReplicasMove) -> Decision:
    return Decision(
        cap=cap.cap,
        replicas=replicas.replicas,
        cap_term=cap.term,
        replicas_term=replicas.term,
        message=f"cap {cap.cap}: {cap.why}; replicas {replicas.replicas}: {replicas.why}",
        observations=_observations(found),
        metrics_available=True,
        hold_until=replicas.hold_until,
        cap_why=cap.why,
        replicas_why=replicas.why,
    )


def _observations(found: Tick) -> LawObservations:
    cap = found.observed.cap or found.observed.settings.size_min
    return LawObservations(
        duty=found.settled.duty,
        duty_source=found.settled.duty_source,
        waiting=found.demand.waiting,
        rows_per_second=found.demand.rows_per_second,
        batch_p99_seconds=found.settled.batch_p99_seconds,
        batch_target_seconds=_batch_target_seconds(found),
        predicted_next_seconds=None if found.model is None else found.model.seconds(cap + 1),
        curve=None if found.model is None else curve_in_use(found.model, cap),
        signal_age_seconds=found.demand.age_seconds,
        startup_seconds=found.startup_seconds,
    )


def _batch_target_seconds(found: Tick) -> float | None:
    settings, steps = found.observed.settings, None if found.model is None else found.model.steps
    return batch_target_seconds(settings) if steps is None else max_batch_seconds(settings, steps)


def _with_plan(
    seen: LawObservations, state: CapacityState, curve: CapacityModel, counted: CountInput
) -> LawObservations:
    cap, busy = state.plan.cap or 1, utilization(counted)
    p99 = predicted_p99_seconds(state, curve, cap, busy)
    return replace(
        seen,
        forecast_rows_per_second=counted.forecast,
        capacity_per_replica=counted.capacity_each,
        utilization=busy,
        utilization_target=counted.utilization_target,
        imbalance=counted.imbalance,
        predicted_p99_seconds=p99 if isfinite(p99) else None,
        planned_cap=cap,
        forecast_miss=misses[-1].by if (misses := state.forecaster.errors.latest) else None,
        off_curve=state.off_curve,
    )


def _outlook(state: CapacityState, curve: CapacityModel, counted: CountInput) -> DemandOutlook:
    spare, objective = spare_seconds(counted.settings), counted.settings.objective_milliseconds
    overhead = 0.0 if spare is None or objective is None else objective / 1000 - spare
    return DemandOutlook(
        demand=counted.forecast,
        curve=curve_in_use(curve, state.plan.cap or 1),
        p99_ratio=curve.p99_ratio,
        dispersion=state.dispersion if curve.steps is None else None,
        unevenness=state.unevenness,
        overhead_seconds=overhead,
    )
