"""The law UtilizationBand (docs/design/control-law.md#utilizationband). Pure.

Each tick: store the new samples, record changes of cap and count, judge whether signals are usable, then decide both. Absent
signals never lower the count and leave the cap unchanged.
"""

from typing import NamedTuple

from penstock_operator.decide.scaling.law import (
    CurveInUse,
    Decision,
    DemandOutlook,
    LawInput,
    LawObservations,
)
from penstock_operator.decide.scaling.reasons import (
    CapMove,
    CapReason,
    ReplicasMove,
    ReplicasReason,
)
from penstock_operator.decide.scaling.signals.aggregates import (
    MeasuredDemand,
    MeasuredService,
    PoolHistory,
    measure,
    service,
)
from penstock_operator.decide.scaling.signals.counters import CurveSumsTuple
from penstock_operator.decide.scaling.signals.service_curve import fit, r_squared
from penstock_operator.decide.scaling.utilization_band.batch_cap import (
    STEP_SECONDS,
    CapInput,
    batch_target_seconds,
    clamp_cap,
    held_cap,
    next_cap,
    predicted_seconds,
)
from penstock_operator.decide.scaling.utilization_band.replicas import (
    ReplicasInput,
    bounds_only,
    is_spare,
    next_replicas,
)


class BandState(NamedTuple):
    """The law's state of one pool; not stored through a restart."""

    history: PoolHistory
    spare_since: float | None = None
    """Time since which one replica less suffices without interruption."""


class _Tick(NamedTuple):
    """Measurements at one tick."""

    observed: LawInput
    now: float
    demand: MeasuredDemand
    service: MeasuredService
    """Over the whole window."""
    settled: MeasuredService
    """Service since every Ready pod acknowledged the cap, by which the cap is judged."""
    available: bool


class UtilizationBand:
    """The law UtilizationBand."""

    name = "UtilizationBand"

    def initial(self, now: float) -> BandState:
        """Return the state of a new pool."""
        return BandState(PoolHistory(cap_since=now))

    def step(self, state: BandState, observed: LawInput, now: float) -> tuple[BandState, Decision]:
        """Return the next state and the decision; never raises, whatever the signals."""
        state = noted(state, observed, now)
        tick = _tick(state.history, observed, now)
        state = state._replace(history=state.history.judged(tick.demand))
        tick = tick._replace(available=state.history.available(tick.demand))
        state = state._replace(spare_since=_spare_since(state, tick))
        return state, _decision(tick, _cap(state, tick), _replicas(state, tick))


def noted(state: BandState, observed: LawInput, now: float) -> BandState:
    """Return the state with this round's samples and with changes of cap and count since the last tick."""
    same = observed.replicas == state.history.replicas
    return BandState(state.history.after(observed, now), state.spare_since if same else None)


def _tick(history: PoolHistory, observed: LawInput, now: float) -> _Tick:
    beyond = observed.settings.late.request
    measured = measure(history, observed, now, beyond)
    return _Tick(
        observed=observed,
        now=now,
        demand=measured.demand,
        service=service(measured.seen, since=0.0, beyond=beyond),
        settled=measured.settled,
        available=False,
    )


def _spare_since(state: BandState, tick: _Tick) -> float | None:
    """Return the time since which one replica less suffices; only new samples start it."""
    if not (tick.available and is_spare(_replicas_input(state, tick))):
        return None
    if state.spare_since is None and state.history.news:
        return tick.now
    return state.spare_since


def _cap(state: BandState, tick: _Tick) -> CapMove:
    cap, settings = tick.observed.cap, tick.observed.settings
    if cap is None or cap != clamp_cap(cap, settings) or not tick.available:
        return held_cap(cap, settings, CapReason.SIGNALS_ABSENT, "signals are absent")
    if not tick.observed.all_acknowledged():
        return CapMove(
            cap, CapReason.UNACKNOWLEDGED, "not every Ready pod has acknowledged the cap"
        )
    if tick.now - state.history.cap_since < STEP_SECONDS:
        return CapMove(
            cap, CapReason.STEP_INTERVAL, f"the cap changes at most once in {STEP_SECONDS:.0f} s"
        )
    return next_cap(_cap_input(tick, cap))


def _effective_cap(observed: LawInput) -> int:
    """Return the cap in effect: the published cap, limited by the pods' memory bound."""
    cap = observed.cap or observed.settings.size_min
    return min(cap, observed.memory_bound or cap)


def _cap_input(tick: _Tick, cap: int) -> CapInput:
    return CapInput(
        settings=tick.observed.settings,
        cap=cap,
        memory_bound=tick.observed.memory_bound,
        waiting_per_replica=tick.demand.waiting_per_replica,
        service=tick.settled,
    )


def _replicas_input(state: BandState, tick: _Tick) -> ReplicasInput:
    observed = tick.observed
    return ReplicasInput(
        settings=observed.settings,
        replicas=observed.replicas,
        cap=_effective_cap(observed),
        demand=tick.demand,
        sums=tick.service.sums,
        spare_since=state.spare_since,
        downs=state.history.downs,
    )


def _replicas(state: BandState, tick: _Tick) -> ReplicasMove:
    if tick.available:
        return next_replicas(_replicas_input(state, tick), tick.now)
    replicas = tick.observed.replicas
    unchanged = ReplicasMove(replicas, ReplicasReason.SIGNALS_ABSENT, "signals are absent")
    return bounds_only(tick.observed.settings, replicas) or unchanged


def _decision(tick: _Tick, cap: CapMove, replicas: ReplicasMove) -> Decision:
    observations = _observations(tick)
    decision = Decision.of(cap, replicas, observations)
    return decision._replace(metrics_available=tick.available, outlook=_outlook(observations))


def _observations(tick: _Tick) -> LawObservations:
    settings = tick.observed.settings
    cap = _effective_cap(tick.observed)
    whole = CapInput(settings, cap, None, None, tick.service)
    seconds, rate = predicted_seconds(whole, cap), tick.demand.rows_per_second
    each = cap / seconds if seconds else None
    ready = tick.demand.ready
    return LawObservations(
        duty=tick.service.duty,
        duty_source=tick.service.duty_source,
        waiting=tick.demand.waiting,
        rows_per_second=tick.demand.rows_per_second,
        batch_p99_seconds=tick.service.batch_p99_seconds,
        batch_target_seconds=batch_target_seconds(settings),
        signal_age_seconds=tick.demand.age_seconds,
        capacity_per_replica=each,
        utilization=rate / (ready * each) if each and ready and rate is not None else None,
        curve=_curve(tick.service.sums),
        demand_source=tick.demand.source,
    )


def _curve(sums: CurveSumsTuple | None) -> CurveInUse | None:
    line = None if sums is None else fit(sums)
    if sums is None or line is None:
        return None
    return CurveInUse(line.a, line.c, r_squared(sums), line.mean_rows, None)


def _outlook(observations: LawObservations) -> DemandOutlook | None:
    """Return the outlook of other counts, without latency, which this law does not predict."""
    if observations.curve is None or observations.rows_per_second is None:
        return None
    return DemandOutlook(demand=observations.rows_per_second, curve=observations.curve)
