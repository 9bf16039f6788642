"""What the pass remembers from visit to visit: one owner, by pool UID, nothing of pools that are gone.

All of it can be lost (a restart, a change of leader): limits generations live in the cluster, law states
are rebuilt from the past that Prometheus has and from checkpoints, and pods are asked again.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.ledger import QuotaLedger
from penstock_operator.decide.plan import PlanFigures
from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.observed import Acknowledgement, PoolSignals, Rejection, SignalSource
from penstock_operator.telemetry.decision_log import DecisionKey

NO_SIGNALS = PoolSignals(SignalSource.NONE, problem="nothing has been read yet")
FRESH_SECONDS = 4.0
"""Signals younger than this serve a visit that an event caused: they came with the last tick."""
LAG_SECONDS = 2.0
"""A sample this much younger than an acknowledgement contradicts it: the pod has restarted."""
FIRST_BACK_OFF_SECONDS = 1.0
LAST_BACK_OFF_SECONDS = 60.0
LAST_REFUSAL_SECONDS = 30.0
"""What the API server refuses is asked again at least this often: quotas grow, webhooks come back."""


def back_off(failures: int) -> float:
    """Return the pause after so many failures in a row: 1, 2, 4 .. 60 s."""
    return min(LAST_BACK_OFF_SECONDS, FIRST_BACK_OFF_SECONDS * 2.0 ** min(max(failures, 1) - 1, 10))


ChildKey = tuple[str, str]
"""(kind, name)."""


def child_key(write: ChildWrite) -> ChildKey:
    """Return which child a write is about."""
    return write.kind, str(write.manifest["metadata"]["name"])


@dataclass(slots=True)
class RejectedWrite:
    """A write that the API server refused, and when it is worth asking again unchanged."""

    rejection: Rejection
    manifest: Mapping[str, Any]
    attempts: int
    until: float


@dataclass(slots=True)
class PoolState:
    """What is remembered of one pool. Times are Unix seconds."""

    law_state: object | None = None
    signals: PoolSignals = NO_SIGNALS
    signals_at: float = 0.0
    metrics_server: MetricsServer | None = None
    acknowledged: dict[str, tuple[Acknowledgement, float]] = field(default_factory=dict)
    refused: dict[ChildKey, RejectedWrite] = field(default_factory=dict)
    failures: int = 0
    audited: DecisionKey | None = None
    """The last decision that was logged."""
    law_failure: str | None = None
    """The last failure of the control law that was logged."""
    labels: dict[str, str] | None = None
    """Of the pool's metrics."""
    figures: PlanFigures | None = None
    """Those last told."""

    def record_signals(self, signals: PoolSignals, now: float) -> None:
        """Take a round of signals.

        A pod that reports another generation later than it acknowledged one is believed: it has restarted.
        """
        self.signals, self.signals_at = signals, now
        behind = 0.0 if signals.queried_at is None else now - signals.queried_at
        for sample in signals.samples:
            if sample.limits_generation is None or sample.uid not in self.acknowledged:
                continue
            held, at = self.acknowledged[sample.uid]
            generation = int(sample.limits_generation)
            if generation != held.generation and sample.time + behind > at + LAG_SECONDS:
                bound = None if sample.batch_cap_bound is None else int(sample.batch_cap_bound)
                heard = Acknowledgement(generation, bound or held.effective_max)
                self.acknowledged[sample.uid] = (heard, now)

    def record_acks(self, answers: Mapping[str, Acknowledgement], now: float) -> bool:
        """Take the answers to pushes; return whether any says something new.

        How far a load has come is none: it changes by the second, and the next tick tells it.
        """
        held = {uid: replace(one, loading=None) for uid, one in self.acknowledgements.items()}
        news = any(held.get(uid) != replace(one, loading=None) for uid, one in answers.items())
        self.acknowledged |= {uid: (one, now) for uid, one in answers.items()}
        return news

    @property
    def acknowledgements(self) -> dict[str, Acknowledgement]:
        """The last answer of every pod."""
        return {uid: one for uid, (one, _) in self.acknowledged.items()}

    @property
    def rejections(self) -> tuple[Rejection, ...]:
        """Children that the API server refuses at present."""
        return tuple(one.rejection for one in self.refused.values())

    def should_retry(self, write: ChildWrite, now: float) -> bool:
        """Return whether a write is worth sending: new, changed, or refused long enough ago."""
        refusal = self.refused.get(child_key(write))
        return refusal is None or now >= refusal.until or refusal.manifest != write.manifest

    def record_write_results(
        self, wanted: Iterable[ChildWrite], rejected: Mapping[ChildKey, Rejection], now: float
    ) -> bool:
        """Take what became of a plan's writes; return whether refusals came, changed or went.

        What is not wanted any more is not refused any more; what was not sent stays refused.
        """
        before, after = self.refused, dict[ChildKey, RejectedWrite]()
        for write in wanted:
            key = child_key(write)
            held = before.get(key)
            if key in rejected:
                attempts = held.attempts + 1 if held else 1
                until = now + min(LAST_REFUSAL_SECONDS, 2 * back_off(attempts))
                after[key] = RejectedWrite(rejected[key], write.manifest, attempts, until)
            elif held is not None and not self.should_retry(write, now):
                after[key] = held
        was = self.rejections
        self.refused = after
        return was != self.rejections

    def keep_pods(self, live: Collection[str]) -> None:
        """Drop the answers of pods that are gone."""
        self.acknowledged = {uid: one for uid, one in self.acknowledged.items() if uid in live}


@dataclass(slots=True)
class ReconcileState:
    """All pools' memories."""

    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    """Claims to devices, and what was granted."""
    _pools: dict[str, PoolState] = field(default_factory=dict)

    def of(self, uid: str) -> PoolState:
        """Return the memory of a pool, empty at first."""
        return self._pools.setdefault(uid, PoolState())

    def forget(self, uid: str) -> None:
        """Drop a pool that is gone."""
        self._pools.pop(uid, None)

    def clear(self) -> None:
        """Drop everything: another leader may have decided since."""
        self.ledger = QuotaLedger()
        self._pools.clear()
