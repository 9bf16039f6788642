"""Measurements and models at one tick, from the pool's samples, curves and starts. Pure."""

from math import inf
from typing import NamedTuple

from penstock_operator.decide.scaling.capacity_at_objective.batch_cap import spare_seconds
from penstock_operator.decide.scaling.capacity_at_objective.capacity.decode_capacity import (
    decode_capacity,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import (
    CapacityModel,
    model,
)
from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import p90_seconds
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import (
    PoolDemand,
    at_gateway,
    load,
)
from penstock_operator.decide.scaling.capacity_at_objective.latency import pooled, predict
from penstock_operator.decide.scaling.capacity_at_objective.latency.pooled import LateSharesByPods
from penstock_operator.decide.scaling.capacity_at_objective.latency.predict import (
    MIN_RHO,
    TrafficShape,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.law import LawInput
from penstock_operator.decide.scaling.signals.aggregates import (
    MeasuredDemand,
    MeasuredService,
    measure,
)
from penstock_operator.decide.scaling.signals.per_revision import main_revision
from penstock_operator.decide.spec.law_settings import LawSettings


class Tick(NamedTuple):
    """Measurements and models at one tick."""

    observed: LawInput
    now: float
    demand: MeasuredDemand
    load: PoolDemand
    settled: MeasuredService
    """Service since every Ready pod acknowledged the cap."""
    model: CapacityModel | None
    """None without measured batches."""
    startup_seconds: float
    """90th percentile of start-up, in seconds."""


def observe_tick(state: CapacityState, observed: LawInput, now: float) -> Tick:
    """Return the measurements from a state that includes this round's samples."""
    revision = main_revision(pod.revision for pod in observed.ready)
    steps = state.step_curves.of_revision(revision)
    settings = observed.settings
    beyond = settings.batch_late_share if steps else settings.late.request
    measured = measure(state.history, observed, now, beyond)
    return Tick(
        observed=observed,
        now=now,
        demand=measured.demand,
        load=at_gateway(load(measured.seen, float(observed.cap or 1)), measured.offered),
        settled=measured.settled,
        model=revision_model(state, revision, settings),
        startup_seconds=p90_seconds(state.startup, now),
    )


def revision_model(
    state: CapacityState, revision: str | None, settings: LawSettings
) -> CapacityModel | None:
    """Return the capacity model of one revision's pods; None without measured batches."""
    steps = state.step_curves.of_revision(revision)
    if steps:
        return decode_capacity(steps, settings.batch_late_share)
    return model(state.curves.of_revision(revision), settings.late.request)


def ready_capacity(tick: Tick, curve: CapacityModel, cap: int) -> float:
    """Return the capacity of the Ready pods, in rows a second, each at its own cap."""
    caps = (cap if pod.acknowledged or pod.cap is None else pod.cap for pod in tick.observed.ready)
    return sum(curve.capacity(rows) or 0.0 for rows in caps)


def late_share(
    state: CapacityState, tick: Tick, curve: CapacityModel, cap: int
) -> LateSharesByPods | None:
    """Return the predicted share of late requests, by number of pods and utilization.

    None without an objective, with one that even lone requests miss, and in generation, where requests join at any step.
    """
    limit = _limit(tick, curve, cap)
    if limit is None:
        return None
    intercept = curve.intercept(cap)
    least = predict.late_share(TrafficShape(intercept, 0.0, 0.0), limit).at(MIN_RHO)
    if least > tick.observed.settings.late.request:
        return None
    return pooled.late_shares(state.traffic, intercept, cap, limit)


def predicted_p99_seconds(
    state: CapacityState, tick: Tick, curve: CapacityModel, cap: int, utilization: float
) -> float:
    """Return the 99th percentile of latency in seconds at this utilization; infinite from 1 on, and if it is not predicted."""
    if curve.steps is not None or utilization >= 1:
        return inf
    whole = (curve.seconds(cap) or 0.0) * curve.p99_ratio
    intercept, ready = curve.intercept(cap), tick.demand.ready
    return whole * pooled.p99(state.traffic, intercept, cap, ready, utilization)


def _limit(tick: Tick, curve: CapacityModel, cap: int) -> float | None:
    """Return the objective in tails of t(cap)."""
    spare, seconds = spare_seconds(tick.observed.settings), curve.seconds(cap)
    if spare is None or not seconds or curve.steps is not None:
        return None
    return spare / (seconds * curve.tail_ratio)
