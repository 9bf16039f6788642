"""The interface of a control law: a pure step `(state, observed, now) -> (state', decision)`.

A law reads samples and decides a cap and a count; it reads no objects and makes no writes. Modes (Auto, Recommend,
Hold, Manual, Fixed) are applied in `decision.py`, so that they have the same effect on every law.
"""

from enum import StrEnum
from typing import NamedTuple, Protocol, TypeVar

from penstock_operator.decide.scaling.polyline import Polyline
from penstock_operator.decide.scaling.reasons import CapMove, ReplicasMove
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import OfferedDemand, PoolSignals, UtilizationSource


class LawPod(NamedTuple):
    """A pod in a law's input."""

    uid: str
    ready: bool
    terminating: bool
    acknowledged: bool
    """Whether it acknowledged the published limits generation."""
    cap_bound: int | None
    """The pod's memory bound on the cap; None if it reports none."""
    created: float | None = None
    """Creation time, in Unix seconds: the counters of a young pod started at 0."""
    cap: int | None = None
    """The last cap that it reported as applied."""
    scheduled_since: float | None = None
    """Time of binding to a node; None if it is not bound or the time is unknown."""
    ready_since: float | None = None
    """Time at which it became Ready."""
    revision: str | None = None
    """Revision of its template: pods of one revision perform alike."""
    failing: bool = False
    """Whether it reports a problem, or its container was restarted."""


class DemandSource(StrEnum):
    """Where demand was counted."""

    GATEWAY = "Gateway"
    PODS = "Pods"


class RequestSpread(StrEnum):
    """How requests reach the Ready pods."""

    BY_CONNECTION = "ByConnection"
    """With their connections, which a Service distributes at random."""
    LEAST_REQUEST = "LeastRequest"
    """Each to a pod with the fewest requests in flight."""
    CENTRAL_QUEUE = "CentralQueue"
    """Through one queue, from which a free pod takes its next batch."""


class PoolTraffic(NamedTuple):
    """How requests arrive at the pods."""

    spread: RequestSpread
    dispersion: float
    """Variance over mean of a pod's arrivals, in rows."""
    unevenness: float
    """Squared coefficient of variation of the pods' rates, per pod."""
    pool_dispersion: float
    """Variance over mean of all arrivals, in rows, at least 1."""


class LawInput(NamedTuple):
    """Input of one step: a pool at one tick."""

    settings: LawSettings
    signals: PoolSignals
    pods: tuple[LawPod, ...]
    replicas: int
    """The Deployment's present replica count."""
    cap: int | None
    """The published cap, or None before the first."""
    limited: bool = False
    """Whether the pool was granted fewer replicas than requested, because pools share devices."""
    offered: OfferedDemand | None = None
    """Demand that the pool's gateway counted; None without one, or if it is not fresh."""
    spread: RequestSpread = RequestSpread.BY_CONNECTION
    fixed_cap: int | None = None
    """The cap that batching mode Recommend or Fixed publishes, in rows; None: the law's."""

    @property
    def ready(self) -> tuple[LawPod, ...]:
        """Return the Ready pods that are not terminating."""
        return tuple(pod for pod in self.pods if pod.ready and not pod.terminating)

    @property
    def memory_bound(self) -> int | None:
        """Return the smallest memory bound of the Ready pods; None if none reports one."""
        bounds = [pod.cap_bound for pod in self.ready if pod.cap_bound is not None]
        return min(bounds, default=None)

    def cap_for_count(self, planned: int | None) -> int:
        """Return the cap that pods will run, for which replicas are counted: the fixed one within memory, else the `planned` one."""
        if self.fixed_cap is None:
            return planned or 1
        bound = self.fixed_cap if self.memory_bound is None else self.memory_bound
        return max(min(self.fixed_cap, bound), 1)

    def all_acknowledged(self) -> bool:
        """Return whether every Ready pod acknowledged the published limits."""
        return all(pod.acknowledged for pod in self.ready)


class CurveInUse(NamedTuple):
    """The service curve t(b) = a + c*b in use, and the data it was fitted to."""

    a: float
    """Seconds."""
    c: float
    """Seconds a row."""
    r_squared: float | None
    """Coefficient of determination of the line; None if all batches have one size or one time."""
    mean_rows: float
    largest_rows: float | None
    """Lower bound of the largest batch measured; None if unknown."""
    shape: Polyline | None = None
    """The curve where no line describes the device; `a` and `c` are then those of its chord up to the cap."""

    def seconds(self, rows: float) -> float:
        """Return t(rows)."""
        return self.a + self.c * rows if self.shape is None else self.shape.seconds(rows)


class DemandOutlook(NamedTuple):
    """Inputs for judging other caps and counts."""

    demand: float
    """Rows a second; the forecast with its headroom where the law makes one."""
    curve: CurveInUse
    p99_ratio: float = 1.0
    """The 99th percentile of t / (a + c*b)."""
    tail_ratio: float = 1.0
    """The ratio t / (a + c*b) that as large a share of batches exceeds as the objective allows of requests."""
    traffic: PoolTraffic | None = None
    """None if latency is not predicted."""
    overhead_seconds: float = 0.0
    """Latency of a request outside queue and batch, in seconds."""


class ReplicaDemand(NamedTuple):
    """The count that one term of a law demands, before bounds and holds."""

    term: str
    replicas: float


class BatchWorkPlan(NamedTuple):
    """Batch work of a pool, and the replicas for it."""

    lines_left: int
    rate: float
    """Lines a second with which all batches end in time."""
    replicas: float
    """Replicas that this rate takes; of a pool with variants those of the one that serves it cheapest."""
    added: int
    """Replicas beyond those that other demand and the minimum need."""


class LawObservations(NamedTuple):
    """Figures that the law derived from the signals; None is absent."""

    duty: float | None = None
    """Mean over Ready pods, 0 to 1."""
    duty_source: UtilizationSource | None = None
    waiting: float | None = None
    """Requests, summed over Ready pods."""
    rows_per_second: float | None = None
    """Received before admission, refusals counted."""
    batch_p99_seconds: float | None = None
    batch_target_seconds: float | None = None
    """T = 0.45 * (D - window); None without an objective."""
    signal_age_seconds: float | None = None
    forecast_rows_per_second: float | None = None
    """Demand at the time when a replica requested now is Ready, with headroom."""
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
    """The cap that capacity is planned with."""
    curve: CurveInUse | None = None
    forecast_miss: float | None = None
    """Measured demand minus the demand forecast one start-up ago, in rows a second."""
    off_curve: float | None = None
    """Rows served by busy pods over rows predicted by the curve, minus 1; None within the tolerance."""
    demand_source: DemandSource | None = None
    """Where the demand was counted; None if the law reads none."""


class Decision(NamedTuple):
    """The cap and the count that a law decides, with reasons; each `term` is the CamelCase name of the part of the law that set the value."""

    cap: int
    replicas: int
    cap_term: str
    replicas_term: str
    observations: LawObservations
    metrics_available: bool
    """Whether signals are usable at this tick (docs/design/control-law.md#data)."""
    hold_until: float | None = None
    cap_why: str = ""
    """A clause on the cap."""
    replicas_why: str = ""
    """A clause on the count."""
    demands: tuple[ReplicaDemand, ...] = ()
    """The count that each term demands."""
    outlook: DemandOutlook | None = None
    batch_work: BatchWorkPlan | None = None
    """Batch work; None without any, or while it is unknown."""

    @classmethod
    def of(cls, cap: CapMove, count: ReplicasMove, observations: LawObservations) -> "Decision":
        """Return the decision from signals for a cap and a count."""
        decided = cls(cap.cap, 0, cap.term, "", observations, metrics_available=True)
        return decided._replace(cap_why=cap.why).with_count(count)

    def with_count(self, count: ReplicasMove) -> "Decision":
        """Return the decision with another count."""
        return self._replace(
            replicas=count.replicas,
            replicas_term=count.term,
            replicas_why=count.why,
            hold_until=count.hold_until,
        )

    @property
    def message(self) -> str:
        """Return one sentence on the cap and the count."""
        return f"cap {self.cap}: {self.cap_why}; replicas {self.replicas}: {self.replicas_why}"


State = TypeVar("State")


class Law(Protocol[State]):
    """A replaceable control law."""

    name: str

    def initial(self, now: float) -> State:
        """Return the state of a new pool (also after the operator restarts)."""

    def step(self, state: State, observed: LawInput, now: float) -> tuple[State, Decision]:
        """Return the next state and the decision; never raises, whatever the signals."""
