"""The shape of a control law: a pure step `(state, observed, now) -> (state', decision)`.

A law reads samples, never objects; it decides a cap and a count, never a write. Modes (Auto, Recommend,
Hold, Manual, Fixed) are applied outside, in `decision.py`, so that every law obeys them alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import PoolSignals, UtilizationSource


@dataclass(frozen=True, slots=True)
class LawPod:
    """A pod as a law sees it."""

    uid: str
    ready: bool
    terminating: bool
    acknowledged: bool
    """Whether it obeys the published limits generation."""
    cap_bound: int | None
    """The pod's own memory bound on the cap, if it said one."""
    created: float | None = None
    """When it was created: a pod this young has counters that began at 0."""
    cap: int | None = None
    """The cap that it last reported to obey."""
    scheduled_since: float | None = None
    """When it was bound to a node; None: not yet, or not told."""
    ready_since: float | None = None
    """Since when it is Ready."""
    revision: str | None = None
    """What its template came from: pods of one revision serve alike."""
    failing: bool = False
    """Whether it reports a problem, or its container was restarted."""


@dataclass(frozen=True, slots=True)
class LawInput:
    """One tick of one pool."""

    settings: LawSettings
    signals: PoolSignals
    pods: tuple[LawPod, ...]
    replicas: int
    """What the Deployment asks for now."""
    cap: int | None
    """The published cap, or None before the first."""
    limited: bool = False
    """Whether the pool has fewer replicas than it wanted, since others want the same devices."""


@dataclass(frozen=True, slots=True)
class CurveInUse:
    """t(b) = a + c*b as it is used, and what it rests on."""

    a: float
    """Seconds."""
    c: float
    """Seconds a row."""
    r_squared: float | None
    """Of the least-squares line; None where batches of one size, or of one time, have none."""
    mean_rows: float
    largest_rows: float | None
    """The largest batch that was surely seen; None: not told."""


@dataclass(frozen=True, slots=True)
class DemandOutlook:
    """What other caps and counts are judged by, should anybody ask."""

    demand: float
    """Rows a second, the forecast with its headroom where there is one."""
    curve: CurveInUse
    p99_ratio: float = 1.0
    """The 99th percentile of t / (a + c*b)."""
    dispersion: float | None = None
    """Variance over mean of a pod's arrivals, in rows; None: latency is not predicted."""
    unevenness: float = 0.0
    """Squared coefficient of variation of the pods' rates, per pod."""
    overhead_seconds: float = 0.0
    """Of a request beside queue and batch."""


@dataclass(frozen=True, slots=True)
class ReplicaDemand:
    """A count that one term of a law asked for, before bounds and holds."""

    term: str
    replicas: float


@dataclass(frozen=True, slots=True)
class LawObservations:
    """What the law made of the signals; None is absent."""

    duty: float | None
    """Mean over Ready pods, 0 to 1."""
    duty_source: UtilizationSource | None
    waiting: float | None
    """Requests, summed over Ready pods."""
    rows_per_second: float | None
    """Received before admission, refusals counted."""
    batch_p99_seconds: float | None
    batch_target_seconds: float | None
    """T = 0.45 * (D - window); None without an objective."""
    predicted_next_seconds: float | None
    """t(cap + 1) by the fitted service curve."""
    signal_age_seconds: float | None
    forecast_rows_per_second: float | None = None
    """Demand when a replica asked for now would serve, with headroom."""
    capacity_per_replica: float | None = None
    """Rows a second of one replica at the planned cap."""
    utilization: float | None = None
    """Effective: demand times imbalance, over the capacity of the Ready pods."""
    utilization_target: float | None = None
    """The largest effective utilisation predicted to meet the objective."""
    imbalance: float | None = None
    """The busiest pod's demand over the mean pod's, at least 1."""
    startup_seconds: float | None = None
    """The 90th percentile of start-up, bind to Ready."""
    predicted_p99_seconds: float | None = None
    """Of a request's latency, at the present demand and count."""
    planned_cap: int | None = None
    """The cap that capacity is planned with; the published one may bridge above it."""
    curve: CurveInUse | None = None
    forecast_miss: float | None = None
    """Rows a second that came, less those forecast for now a start-up ago."""
    off_curve: float | None = None
    """Rows that busy pods served over those that the curve foretells, less 1, where that is too far off; None: it is not."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a law wants, and why. `term` names (CamelCase) which part of the law bound."""

    cap: int
    replicas: int
    cap_term: str
    replicas_term: str
    message: str
    observations: LawObservations
    metrics_available: bool
    """False: the pool counts as absent this tick (docs/design/control-law.md#data)."""
    hold_until: float | None = None
    cap_why: str = ""
    """Half a sentence on the cap alone; `message` has both."""
    replicas_why: str = ""
    """Half a sentence on the count alone."""
    demands: tuple[ReplicaDemand, ...] = ()
    """What each term asked for."""
    outlook: DemandOutlook | None = None


State = TypeVar("State")


class Law(Protocol[State]):
    """A replaceable control law."""

    name: str

    def initial(self, now: float) -> State:
        """Return the state of a pool just met (also after the operator restarts)."""

    def step(self, state: State, observed: LawInput, now: float) -> tuple[State, Decision]:
        """Return the next state and what to do; never raises, whatever the signals."""


States = Mapping[str, object]
"""Law states by pool UID, owned by the pass."""
