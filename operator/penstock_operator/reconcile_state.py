"""Reconcile state: what the operator keeps in memory about each pool between reconciles, by pool UID.

All of it may be lost in a restart or a change of leader: limits generations are stored in the cluster, law states are
rebuilt from Prometheus and from checkpoints, and pods acknowledge again.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.manifests.writes import is_edited
from penstock_operator.decide.plan import PlanFigures
from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.pod_calls import CALLS, PodCalls
from penstock_operator.observed import Acknowledgement, PoolSignals, Rejection, SignalSource
from penstock_operator.telemetry.decision_log import DecisionKey
from penstock_operator.variants import VariantFigures

NO_SIGNALS = PoolSignals(SignalSource.NONE, problem="nothing has been read yet")
FRESH_SECONDS = 4.0
"""Age below which signals are reused: a reconcile that an event triggered reads nothing new."""
LAG_SECONDS = 2.0
"""A sample this much newer than an acknowledgement overrides it: the pod has restarted."""
HOLD_SECONDS = 60.0
"""Time without a gap after which Prometheus is used again, if its gaps recur."""
RECURRING_GAPS = (
    "Prometheus lacks samples at some ticks, as with scrapes further apart than 5 s:"
    " the pods are read until it has lacked none for 60 s"
)
FIRST_BACK_OFF_SECONDS = 1.0
MAX_BACK_OFF_SECONDS = 60.0
MAX_REJECTION_SECONDS = 30.0
"""Maximum back-off before a rejected write is retried unchanged: quotas are raised, and webhooks recover."""
MAX_ALTERATION_SECONDS = 10 * MAX_BACK_OFF_SECONDS


def back_off(failures: int) -> float:
    """Return the back-off after this many consecutive failures: 1, 2, 4 .. 60 s."""
    return min(MAX_BACK_OFF_SECONDS, FIRST_BACK_OFF_SECONDS * 2.0 ** min(max(failures, 1) - 1, 10))


def rejection_back_off(attempts: int) -> float:
    """Return the back-off after this many rejections of a write: 2, 4, 8 .. 30 s."""
    return min(MAX_REJECTION_SECONDS, 2 * back_off(attempts))


def alteration_back_off(attempts: int) -> float:
    """Return the back-off after this many altered writes: 20, 40, 80 .. 600 s."""
    return min(MAX_ALTERATION_SECONDS, 20 * back_off(attempts))


@dataclass(slots=True)
class BackOffs:
    """Back-offs of requests that fail apart from others, by key. Times are seconds of one clock."""

    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)
    """Consecutive failures, and when the back-off ends."""

    def due(self, key: str, now: float) -> bool:
        """Return whether no back-off is in force; one that a clock that stepped back would prolong is over."""
        _, until = self._failed.get(key, (0, now))
        return not 0 < until - now <= MAX_REJECTION_SECONDS

    def extend(self, key: str, now: float) -> None:
        """Begin the next, longer back-off after a failure."""
        failures = self._failed.get(key, (0, now))[0] + 1
        self._failed[key] = failures, now + rejection_back_off(failures)

    def end(self, key: str) -> None:
        """Drop the back-off: the request succeeded, or its object was deleted."""
        self._failed.pop(key, None)


ChildKey = tuple[str, str]
"""(kind, name)."""


def child_key(write: ChildWrite) -> ChildKey:
    """Return the kind and name of the child that a write is for."""
    return write.kind, str(write.manifest["metadata"]["name"])


def _content(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `manifest` without its preconditions: the resourceVersion changes with every status update of a workload."""
    own = {k: v for k, v in manifest["metadata"].items() if k not in ("uid", "resourceVersion")}
    return {**manifest, "metadata": own}


@dataclass(slots=True)
class RejectedWrite:
    """A write that the API server rejected, and when to retry it unchanged."""

    rejection: Rejection
    manifest: Mapping[str, Any]
    attempts: int
    until: float


@dataclass(slots=True)
class Fallback:
    """Whether a pool's pods are read instead of its Prometheus. Times are Unix seconds.

    A server that scrapes every 10 s has enough samples at every second tick only. Each change of source restarts the
    windows of samples, so after a second gap within `HOLD_SECONDS` the pods stay the source for that time.
    """

    _gap: bool = False
    """Whether Prometheus lacked samples at the last tick."""
    _recurs: bool = False
    _seen: float = float("-inf")
    """Time of the last gap."""
    _ended: float = float("-inf")
    """Time at which the last gap ended."""

    def update(self, problem: str, now: float) -> str:
        """Return why the pods are read, empty to use Prometheus; `problem` is what it lacks now, empty if nothing."""
        if problem:
            self._recurs = 0 <= now - self._ended < HOLD_SECONDS
            self._gap, self._seen = True, now
        elif self._gap:
            self._gap, self._ended = False, now
        recent = 0 <= now - self._seen < HOLD_SECONDS
        return RECURRING_GAPS if self._recurs and recent else problem


@dataclass(slots=True)
class PoolState:
    """State of one pool. Times are Unix seconds."""

    law_state: object | None = None
    signals: PoolSignals = NO_SIGNALS
    signals_at: float = 0.0
    metrics_server: MetricsServer | None = None
    fallback: Fallback = field(default_factory=Fallback)
    """Whether the pods are read instead of Prometheus."""
    calls: PodCalls = field(default_factory=PodCalls)
    acknowledged: dict[str, tuple[Acknowledgement, float]] = field(default_factory=dict)
    """The last acknowledgement of each pod and its time, by pod UID."""
    rejected: dict[ChildKey, RejectedWrite] = field(default_factory=dict)
    failures: int = 0
    """Consecutive failed reconciles."""
    logged_decision: DecisionKey | None = None
    logged_law_failure: str | None = None
    """Where the control law last failed."""
    labels: dict[str, str] | None = None
    """Labels of the pool's metrics; None before the first decision."""
    figures: PlanFigures | None = None
    """Figures of the last decision."""

    def record_signals(self, signals: PoolSignals, now: float) -> None:
        """Store a round of signals.

        A sample whose generation differs from an earlier acknowledgement replaces it: the pod restarted.
        """
        self.signals, self.signals_at = signals, now
        behind = 0.0 if signals.queried_at is None else now - signals.queried_at
        for sample in signals.samples:
            if sample.limits_generation is None or sample.uid not in self.acknowledged:
                continue
            last, at = self.acknowledged[sample.uid]
            generation = int(sample.limits_generation)
            newer = (
                at > now or sample.time + behind > at + LAG_SECONDS
            )  # after now: a clock set back
            if generation != last.generation and newer:
                bound = None if sample.batch_cap_bound is None else int(sample.batch_cap_bound)
                corrected = Acknowledgement(
                    generation, bound or last.effective_max, model_backend=last.model_backend
                )
                self.acknowledged[sample.uid] = (corrected, now)

    def record_acks(self, acks: Mapping[str, Acknowledgement], now: float) -> bool:
        """Store pods' responses to pushes, by pod UID; return whether any differs from the last one.

        The progress of a load is not compared: it changes every second, and the next tick reads it.
        """
        before = {uid: replace(ack, loading=None) for uid, ack in self.acknowledgements.items()}
        changed = any(before.get(uid) != replace(ack, loading=None) for uid, ack in acks.items())
        self.acknowledged |= {uid: (ack, now) for uid, ack in acks.items()}
        return changed

    @property
    def acknowledgements(self) -> dict[str, Acknowledgement]:
        """The last acknowledgement of each pod, by pod UID."""
        return {uid: ack for uid, (ack, _) in self.acknowledged.items()}

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """The current rejections of child writes."""
        return tuple(write.rejection for write in self.rejected.values())

    def should_retry(self, write: ChildWrite, now: float) -> bool:
        """Return whether to send a write: it or the child changed, or no back-off is in force."""
        rejected = self.rejected.get(child_key(write))
        if rejected is None or not 0 < rejected.until - now <= MAX_ALTERATION_SECONDS:
            return True
        stored = rejected.rejection.stored
        if stored is not None and is_edited(write, stored):
            return True
        return _content(rejected.manifest) != _content(write.manifest)

    def record_write_results(
        self,
        planned: Iterable[ChildWrite],
        stored: Collection[ChildKey],
        rejected: Mapping[ChildKey, Rejection],
        now: float,
        waiting: Iterable[ChildKey] = (),
    ) -> bool:
        """Store the results of a plan's child writes; return whether the rejections changed.

        A rejection ends when its write succeeds or is no longer planned; a write in back-off stays rejected. The rejection
        of a workload in `waiting`, whose rollout waits for others, stays until 30 s after its back-off: otherwise two
        rejected rollouts would alternate without back-off.
        """
        before = self.rejected
        after = {
            key: last
            for key in waiting
            if (last := before.get(key)) is not None
            and key not in stored
            and now < last.until + MAX_REJECTION_SECONDS
        }
        for write in planned:
            key = child_key(write)
            last = before.get(key)
            if key in rejected:
                attempts = last.attempts + 1 if last else 1
                altered = rejected[key].reason == Rejection.ALTERED
                seconds = (alteration_back_off if altered else rejection_back_off)(attempts)
                after[key] = RejectedWrite(rejected[key], write.manifest, attempts, now + seconds)
            elif last is not None and key not in stored:
                after[key] = last
        rejections = self.rejections
        self.rejected = after
        return rejections != self.rejections

    def keep_pods(self, live: Collection[str]) -> None:
        """Drop what is known of deleted pods; `live` are the UIDs of the others."""
        self.calls.keep(live)
        self.acknowledged = {uid: ack for uid, ack in self.acknowledged.items() if uid in live}


@dataclass(slots=True)
class ReconcileState:
    """State of all pools, and the ledger of budgets."""

    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    """Quota requests and grants."""
    _pools: dict[str, PoolState] = field(default_factory=dict)
    _calls: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CALLS))
    """Shared by all pools."""

    def of(self, uid: str) -> PoolState:
        """Return the state of a pool, initially empty."""
        state = self._pools.get(uid)
        if state is None:
            state = self._pools[uid] = PoolState(calls=PodCalls(self._calls))
        return state

    def variant_figures(self, uid: str) -> VariantFigures:
        """Return what the last decision about the pool of a variant knew."""
        state = self._pools.get(uid)
        return VariantFigures() if state is None or state.figures is None else state.figures.variant

    def forget(self, uid: str) -> None:
        """Drop the state of a pool."""
        self._pools.pop(uid, None)

    def clear(self) -> None:
        """Drop the state of all pools and the ledger."""
        self.ledger = QuotaLedger()
        self._pools.clear()
