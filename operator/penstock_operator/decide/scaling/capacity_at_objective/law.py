"""The law CapacityAtObjective (docs/design/control-law.md#capacityatobjective): capacity at the objective, forecast over a start-up. Pure.

Each tick: store the new samples, update each pod's curve and the start-up times, judge whether signals are usable; then plan
the largest batch of which two fit the objective, and the number of replicas for the demand at the time when a replica
requested now is Ready. Absent signals change nothing.
"""

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
from penstock_operator.decide.scaling.capacity_at_objective.demand import forecast
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    Lateness,
    cheapest_count,
    reprice,
    strictness,
)
from penstock_operator.decide.scaling.capacity_at_objective.observations import (
    Tick,
    late_share,
    observe_tick,
    predicted_p99_seconds,
    ready_capacity,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import (
    UTILIZATION,
    Count,
    CountInput,
    hold_seconds,
    largest_need,
    max_utilization,
    needs,
    next_count,
    record_need,
    utilization,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import (
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
from penstock_operator.decide.scaling.utilization_band.batch_cap import (
    batch_target_seconds,
    clamp_cap,
    held_cap,
)
from penstock_operator.decide.scaling.utilization_band.replicas import bounds_only

TICK_SECONDS = 5.0
MIN_COUNT = 0.2
"""Smallest count of the search, as a fraction of a replica."""


class CapacityAtObjective:
    """The law CapacityAtObjective."""

    name = "CapacityAtObjective"

    def initial(self, now: float) -> CapacityState:
        """Return the state of a new pool."""
        return CapacityState(Count(begun=now), Lateness(INITIAL_PRICE))

    def step(
        self, state: CapacityState, observed: LawInput, now: float
    ) -> tuple[CapacityState, Decision]:
        """Return the next state and the decision; never raises, whatever the signals."""
        state = with_samples(state, observed, now)
        tick = observe_tick(state, observed, now)
        state = state._replace(history=state.history.judged(tick.demand))
        if not state.history.available(tick.demand):
            state = state._replace(counting=state.counting._replace(begun=now, needs=()))
            return state, _blind(tick)
        if tick.model is None:
            return state, _without_curve(state, tick)
        return _decided(state, tick, tick.model)


def _blind(tick: Tick) -> Decision:
    """Return the decision without signals: bounds apply, nothing else changes."""
    why = "signals are absent"
    cap = held_cap(tick.observed.cap, tick.observed.settings, CapReason.SIGNALS_ABSENT, why)
    move = _held_count(tick, ReplicasReason.SIGNALS_ABSENT, why)
    return Decision.of(cap, move, _observations(tick))._replace(metrics_available=False)


def _without_curve(state: CapacityState, tick: Tick) -> Decision:
    """Return the decision before the first batch: nothing changes, except for the user's own queue-depth target."""
    why = "no batch or too few answers have been measured yet"
    settings, waiting = tick.observed.settings, tick.demand.waiting or 0.0
    move = _held_count(tick, ReplicasReason.CURVE_UNKNOWN, why)
    target = settings.guards.target_per_replica
    if target is not None and (needed := -int(-waiting // target)) > move.replicas:
        text = f"{waiting:.0f} requests are waiting, over {target} per replica"
        granted = max(min(needed, settings.max_replicas), move.replicas)
        move = ReplicasMove(granted, ReplicasReason.QUEUE_DEPTH, text)
    cap = _unproven_cap(state, tick) or held_cap(
        tick.observed.cap, tick.observed.settings, CapReason.CURVE_UNKNOWN, why
    )
    return Decision.of(cap, move, _observations(tick))


def _unproven_cap(state: CapacityState, tick: Tick) -> CapMove | None:
    """Return the cap from the steps timed at load, before answers complete; None if no pod generates text."""
    steps, settings = tuple(state.step_curves.pods.values()), tick.observed.settings
    if not steps:
        return None
    token = settings.output_token_milliseconds
    longest = None if token is None else SPARE * token / 1000
    bound = settings.size_max if tick.observed.memory_bound is None else tick.observed.memory_bound
    cap = clamp_cap(initial_rows(steps, longest, bound), settings)
    why = "from the steps timed at load; too few answers have completed yet"
    return CapMove(cap, CapReason.CURVE_UNKNOWN, why)


def _held_count(tick: Tick, term: ReplicasReason, why: str) -> ReplicasMove:
    replicas = tick.observed.replicas
    return bounds_only(tick.observed.settings, replicas) or ReplicasMove(replicas, term, why)


def _decided(
    state: CapacityState, tick: Tick, curve: CapacityModel
) -> tuple[CapacityState, Decision]:
    state = smooth(state, tick.load, tick.now) if state.history.news else state
    state = state._replace(off_curve=off_curve(state.off_curve, tick.settled, curve))
    plan_input = _plan_input(tick, curve)
    state = state._replace(plan=next_plan(state.plan, plan_input, tick.now))
    cap = cap_move(state.plan, plan_input)
    state, inputs = _count_input(state, tick, curve)
    if inputs is None:
        why = "too few samples for a rate yet"
        return state, Decision.of(
            cap, _held_count(tick, ReplicasReason.STEADY, why), _observations(tick)
        )
    terms = needs(inputs)
    need = largest_need(terms)
    hold = hold_seconds(tick.observed.settings, tick.startup_seconds)
    state = state._replace(counting=record_need(state.counting, need.with_margin, hold, tick.now))
    move = next_count(state.counting, inputs, need, tick.now)
    decision = Decision.of(cap, move, _with_plan(state, tick, curve, inputs))
    return state, decision._replace(
        demands=tuple(ReplicaDemand(term.term, term.exact) for term in terms),
        outlook=_outlook(state, tick, curve, inputs),
    )


def _plan_input(tick: Tick, curve: CapacityModel) -> PlanInput:
    return PlanInput(
        settings=tick.observed.settings,
        model=curve,
        memory_bound=tick.observed.memory_bound,
        settled_tail_seconds=tick.settled.batch_tail_seconds,
    )


def _count_input(
    state: CapacityState, tick: Tick, curve: CapacityModel
) -> tuple[CapacityState, CountInput | None]:
    """Return the state with an updated forecaster, and the inputs of the count decision.

    Without an objective the forecast is an upper quantile of demand.
    """
    settings, cap = tick.observed.settings, tick.observed.cap_for_count(state.plan.cap)
    rate = tick.load.recent
    each = curve.capacity(cap)
    if rate is None or not each:
        return state, None
    horizon, late = tick.startup_seconds + TICK_SECONDS, late_share(state, tick, curve, cap)
    inputs = CountInput(
        settings=settings,
        replicas=tick.observed.replicas,
        downs=state.history.downs,
        unmeasured=tick.demand.unmeasured,
        waiting=tick.demand.waiting or 0.0,
        load=tick.load,
        imbalance=max(state.imbalance, 1.0),
        forecast=0.0,
        capacity_each=each,
        capacity_ready=ready_capacity(tick, curve, cap),
        utilization_target=UTILIZATION if curve.steps is None else _unpredicted(state),
        spread=tick.observed.spread,
        startup_seconds=tick.startup_seconds,
        next_batch=curve.completed(cap) * len(tick.observed.ready),
        spare_seconds=max_wait_seconds(settings, curve.steps),
        uneven=max(state.imbalance, 1.0) if late is None else 1.0,
    )
    if state.history.news:
        sample = forecast.DemandSample(
            rate,
            tick.load.newest if tick.load.newest is not None else rate,
            overlapping=tick.load.overlapping,
        )
        forecaster, ahead = forecast.advance(state.forecaster, sample, horizon, tick.now)
        state = state._replace(forecaster=forecaster, lateness=_priced(state, tick))
    else:
        ahead = forecast.outlook(state.forecaster, horizon)
    if late is None or ahead.expected <= 0:
        return state, inputs._replace(forecast=ahead.upper)
    demands = [(chance, demand / each) for chance, demand in forecast.likely_demands(ahead)]
    minimum = max(ahead.expected / each / max_utilization(inputs.spread), MIN_COUNT)
    price = state.lateness.lateness_price * strictness(settings.late.request)
    target = ahead.expected / each / cheapest_count(demands, minimum, price, late)
    return state, inputs._replace(forecast=ahead.expected, utilization_target=target)


def _unpredicted(state: CapacityState) -> float:
    """Return the utilization target where late requests are counted but not predicted: its spare share is proportional to their price."""
    spare = (1 - UTILIZATION) * state.lateness.lateness_price / INITIAL_PRICE
    return min(1 - spare, max_utilization(state.spread))


def _priced(state: CapacityState, tick: Tick) -> Lateness:
    """Return the lateness with its price changed by late requests; unchanged if the pods publish no counts."""
    if state.late is None or not _judged(state, tick):
        return state.lateness
    return reprice(state.lateness, state.late)


def _judged(state: CapacityState, tick: Tick) -> bool:
    """Return whether the law could have avoided a miss: more replicas were available, useful and had time to start."""
    observed = tick.observed
    free = observed.replicas < observed.settings.max_replicas and not observed.limited
    feasible = state.plan.term is not CapReason.OBJECTIVE_INFEASIBLE
    begun = state.forecaster.begun
    own = begun is not None and tick.now - begun > tick.startup_seconds
    return free and feasible and own


def _observations(tick: Tick) -> LawObservations:
    cap = tick.observed.cap or tick.observed.settings.size_min
    return LawObservations(
        duty=tick.settled.duty,
        duty_source=tick.settled.duty_source,
        waiting=tick.demand.waiting,
        rows_per_second=tick.demand.rows_per_second,
        batch_p99_seconds=tick.settled.batch_p99_seconds,
        batch_target_seconds=_batch_target_seconds(tick),
        curve=None if tick.model is None else curve_in_use(tick.model, cap),
        signal_age_seconds=tick.demand.age_seconds,
        startup_seconds=tick.startup_seconds,
        demand_source=tick.load.source,
    )


def _batch_target_seconds(tick: Tick) -> float | None:
    settings, steps = tick.observed.settings, None if tick.model is None else tick.model.steps
    return batch_target_seconds(settings) if steps is None else max_batch_seconds(settings, steps)


def _with_plan(
    state: CapacityState, tick: Tick, curve: CapacityModel, inputs: CountInput
) -> LawObservations:
    cap, busy = tick.observed.cap_for_count(state.plan.cap), utilization(inputs)
    p99 = predicted_p99_seconds(state, tick, curve, cap, busy)
    return _observations(tick)._replace(
        forecast_rows_per_second=inputs.forecast,
        capacity_per_replica=inputs.capacity_each,
        utilization=busy,
        utilization_target=inputs.utilization_target,
        imbalance=inputs.imbalance,
        predicted_p99_seconds=p99 if isfinite(p99) else None,
        planned_cap=cap,
        forecast_miss=misses[-1] if (misses := state.forecaster.errors.by) else None,
        off_curve=state.off_curve,
    )


def _outlook(
    state: CapacityState, tick: Tick, curve: CapacityModel, inputs: CountInput
) -> DemandOutlook:
    spare, objective = spare_seconds(inputs.settings), inputs.settings.objective_milliseconds
    overhead = 0.0 if spare is None or objective is None else objective / 1000 - spare
    return DemandOutlook(
        demand=inputs.forecast,
        curve=curve_in_use(curve, tick.observed.cap_for_count(state.plan.cap)),
        p99_ratio=curve.p99_ratio,
        tail_ratio=curve.tail_ratio,
        traffic=state.traffic if curve.steps is None else None,
        overhead_seconds=overhead,
    )
