"""What the law remembers of one pool, and how a tick's samples enter it. Pure."""

from dataclasses import dataclass, field, replace
from math import exp

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
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast import Forecaster
from penstock_operator.decide.scaling.capacity_at_objective.demand.load import PoolDemand
from penstock_operator.decide.scaling.capacity_at_objective.lateness_price import (
    Lateness,
    count_late,
)
from penstock_operator.decide.scaling.capacity_at_objective.replicas import Count
from penstock_operator.decide.scaling.law import LawInput, LawPod
from penstock_operator.decide.scaling.signals.windows import Windows, advance_windows
from penstock_operator.decide.scaling.utilization_band.replicas import MINUTE

GOOD_TICKS = 3
"""Absence is left only after so many good ticks."""
SMOOTHING_SECONDS = 120.0
"""Of imbalance and dispersion: they belong to the traffic, not to the moment."""


@dataclass(frozen=True, slots=True)
class CapacityState:
    """One pool's memory. It begins anew when the operator restarts."""

    count: Count
    windows: Windows = field(default_factory=Windows)
    good_ticks: int = GOOD_TICKS - 1
    """In a row. A pool just met needs one: nothing is known to have been lost."""
    curves: BatchCurves = field(default_factory=BatchCurves)
    step_curves: StepCurves = field(default_factory=StepCurves)
    """Of steps, where pods generate text."""
    startup: Startup = field(default_factory=Startup)
    forecaster: Forecaster = field(default_factory=Forecaster)
    lateness: Lateness = field(default_factory=Lateness)
    late: float | None = None
    """Seconds' worth of requests that were late beyond the share allowed, in this round."""
    plan: BatchPlan = field(default_factory=BatchPlan)
    cap: int | None = None
    """The published cap of the last tick."""
    settled_since: float | None = None
    """When every Ready pod was first seen to obey it; None: not yet."""
    replicas: int | None = None
    """The Deployment's count at the last tick."""
    imbalance: float = 1.0
    dispersion: float = 1.0
    unevenness: float = 0.0
    """Per Ready pod: where connections spread by chance it grows with the pods they are spread over."""
    measured: float | None = None
    """When the two were last measured."""
    off_curve: float | None = None
    """As `LawObservations.off_curve`."""


def with_samples(state: CapacityState, seen: LawInput, now: float) -> CapacityState:
    """Return the state with this round's samples, and with what the valves did since the last tick."""
    windows = advance_windows(state.windows, seen.signals, seen.pods, now)
    lateness, late = count_late(
        state.lateness, seen.signals, seen.settings.objective_milliseconds, now
    )
    since = state.settled_since if seen.cap == state.cap else None
    if since is None and seen.cap is not None and all_acknowledged(seen.pods):
        since = now
    return replace(
        state,
        lateness=lateness,
        late=late,
        windows=windows,
        curves=learn_batches(state.curves, windows.pods, seen.pods),
        step_curves=learn_steps(state.step_curves, windows.pods, seen.pods),
        startup=watch(state.startup, seen.pods, now),
        cap=seen.cap,
        settled_since=since,
        replicas=seen.replicas,
        count=_counted(state, seen.replicas, now),
    )


def all_acknowledged(pods: tuple[LawPod, ...]) -> bool:
    """Return whether every Ready pod acknowledged the published limits."""
    return all(pod.acknowledged for pod in pods if pod.ready and not pod.terminating)


def smooth(state: CapacityState, load: PoolDemand, now: float) -> CapacityState:
    """Return the state with imbalance and dispersion moved towards what was measured now."""
    if state.measured is None:
        share = 1.0 if load.dispersion is not None else 0.0
    else:
        share = 1 - exp(-max(now - state.measured, 0.0) / SMOOTHING_SECONDS)
    imbalance = state.imbalance if load.imbalance is None else load.imbalance
    dispersion = state.dispersion if load.dispersion is None else max(load.dispersion, 1.0)
    pods = max(len([one for one in state.windows.pods if one not in state.windows.gone]), 1)
    unevenness = state.unevenness if load.unevenness is None else load.unevenness / pods
    return replace(
        state,
        unevenness=state.unevenness + share * (unevenness - state.unevenness),
        imbalance=state.imbalance + share * (imbalance - state.imbalance),
        dispersion=state.dispersion + share * (dispersion - state.dispersion),
        measured=state.measured if load.dispersion is None else now,
    )


def _counted(state: CapacityState, replicas: int, now: float) -> Count:
    """Return the count's memory, with a note where it went down."""
    known = state.count.downs
    downs = tuple(one for one in known if now - one[0] < MINUTE)
    if state.replicas is not None and replicas < state.replicas:
        downs = (*downs, (now, state.replicas - replicas))
    return state.count if downs == known else replace(state.count, downs=downs[-100:])
