"""The state of CapacityAtObjective for one pool, and how a tick's samples update it. Pure."""

from math import exp
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import BatchPlan
from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import (
    BatchCurves,
    learn_batches,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import Startup, watch
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_curves import (
    StepCurves,
    learn_steps,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import (
    Forecaster,
    pool_dispersion,
)
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    INITIAL_PRICE,
    Lateness,
    count_late,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import Count
from penstock_operator.decide.scaling.law import LawInput, PoolTraffic, RequestSpread
from penstock_operator.decide.scaling.signals.aggregates import PoolHistory
from penstock_operator.decide.scaling.signals.attainment import Objectives

SMOOTHING_SECONDS = 120.0
"""Smoothing time of imbalance, dispersion and unevenness."""
UNMEASURED_UNEVENNESS = 1 / 256
"""Unevenness of 256 connections, after a change from a router until it is measured."""


class CapacityState(NamedTuple):
    """The law's state of one pool; a checkpoint stores a part of it (`serialize.py`)."""

    counting: Count
    """State of the replica count."""
    lateness: Lateness
    history: PoolHistory = PoolHistory()
    curves: BatchCurves = BatchCurves()
    step_curves: StepCurves = StepCurves()
    """Curves of steps, if pods generate text."""
    startup: Startup = Startup()
    forecaster: Forecaster = Forecaster()
    late: float | None = None
    """Requests late beyond the allowed share in this round, in seconds' worth of requests."""
    plan: BatchPlan = BatchPlan()
    imbalance: float = 1.0
    dispersion: float = 1.0
    unevenness: float = 0.0
    """Unevenness per Ready pod: with randomly spread connections it grows with the number of pods."""
    measured: float | None = None
    """Time of the last measurement of the three."""
    spread: RequestSpread = RequestSpread.BY_CONNECTION
    """How requests were spread at the last tick: the price and the unevenness depend on it."""
    off_curve: float | None = None
    """The last `LawObservations.off_curve`."""

    @property
    def traffic(self) -> PoolTraffic:
        """Return how requests arrive."""
        return PoolTraffic(
            self.spread, self.dispersion, self.unevenness, pool_dispersion(self.forecaster)
        )


def with_samples(state: CapacityState, observed: LawInput, now: float) -> CapacityState:
    """Return the state with this round's samples and with changes of cap, count and routing since the last tick."""
    state = _spread(state, observed.spread)
    history, settings = state.history.after(observed, now), observed.settings
    windows = history.windows.pods
    lateness, late = count_late(state.lateness, observed.signals, Objectives.of(settings), now)
    return state._replace(
        lateness=lateness,
        late=late,
        history=history,
        curves=learn_batches(state.curves, windows, observed.pods),
        step_curves=learn_steps(state.step_curves, windows, observed.pods),
        startup=watch(state.startup, observed.pods, now),
    )


def _spread(state: CapacityState, spread: RequestSpread) -> CapacityState:
    """Return the state for a way to spread requests; a price that was learned with another one does not apply."""
    if spread is state.spread:
        return state
    return state._replace(
        spread=spread,
        lateness=state.lateness._replace(lateness_price=INITIAL_PRICE),
        unevenness=state.unevenness or UNMEASURED_UNEVENNESS,
    )


def smooth(state: CapacityState, load: PoolDemand, now: float) -> CapacityState:
    """Return the state with imbalance, dispersion and unevenness smoothed towards the present measurement."""
    if state.measured is None:
        share = 1.0 if load.dispersion is not None else 0.0
    else:
        share = 1 - exp(-max(now - state.measured, 0.0) / SMOOTHING_SECONDS)
    imbalance = state.imbalance if load.imbalance is None else load.imbalance
    dispersion = state.dispersion if load.dispersion is None else max(load.dispersion, 1.0)
    windows = state.history.windows
    pods = max(len([uid for uid in windows.pods if uid not in windows.gone]), 1)
    unevenness = state.unevenness
    if load.unevenness is not None and state.spread is RequestSpread.BY_CONNECTION:
        unevenness = load.unevenness / pods
    return state._replace(
        unevenness=state.unevenness + share * (unevenness - state.unevenness),
        imbalance=state.imbalance + share * (imbalance - state.imbalance),
        dispersion=state.dispersion + share * (dispersion - state.dispersion),
        measured=state.measured if load.dispersion is None else now,
    )
