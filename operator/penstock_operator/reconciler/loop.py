"""The reconcile loop: starts a pass over the pools that are due while this process leads.

Passes overlap: a pool whose pods respond slowly delays no other. They start no faster than the decide step can
run, so that under load each pass takes more pools instead.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from penstock_operator.act.signing_key import SigningKeys
from penstock_operator.errors import NotLeading
from penstock_operator.reconciler import reporter
from penstock_operator.reconciler.leader_state import LeaderState
from penstock_operator.reconciler.passes import PassRunner
from penstock_operator.reconciler.workqueue import ACTIVE_SECONDS, WorkQueue
from penstock_operator.telemetry import metrics

log = logging.getLogger(__name__)

LATE_WARNING_SECONDS = 60.0
"""Minimum time between two warnings about late reconciles."""
MAX_WAIT_SECONDS = 1.0
"""Maximum time between two loop iterations, for the liveness probe and to notice an acquired Lease."""


class Phase(StrEnum):
    """Phase of the reconciler."""

    SYNCING = "Syncing"
    """The object store is not complete; no pool is due."""
    STANDBY = "Standby"
    """Another replica holds the Lease, or the signing keys are not read yet; nothing is decided or written."""
    LEADING = "Leading"
    """Passes run."""


@dataclass(slots=True)
class LatenessReport:
    """Metric of late reconciles, and a warning while they are late by more than their interval."""

    _warn_at: float = 0.0

    def record(self, lateness: Sequence[float], now: float) -> None:
        """Observe by how many seconds reconciles were late; `now` in monotonic seconds."""
        for seconds in lateness:
            metrics.LATE_SECONDS.observe(seconds)
        worst = max(lateness, default=0.0)
        if worst > ACTIVE_SECONDS and now >= self._warn_at:
            self._warn_at = now + LATE_WARNING_SECONDS
            log.warning(
                "reconciles are up to %.0f s late: one process cannot serve this many active pools every %.0f s;"
                " give the operator more CPU, or divide the namespaces among several installations",
                worst, ACTIVE_SECONDS,
            )  # fmt: skip


@dataclass(slots=True)
class Reconciler:
    """The loop, its phase, and the passes in flight."""

    runner: PassRunner
    lateness: LatenessReport = field(default_factory=LatenessReport)
    _synced: bool = False
    _last_turn: float = field(default_factory=time.monotonic)
    _next_pass_at: float = 0.0
    _passes: set[asyncio.Task[None]] = field(default_factory=set)
    _policies_due: bool = False
    """Whether policies changed since the last pass began: without pools, nothing else starts one."""

    @property
    def leader(self) -> LeaderState:
        """The Leases and the signing keys."""
        return self.runner.leader

    @property
    def queue(self) -> WorkQueue:
        """The pools that are due."""
        return self.runner.queue

    @property
    def synced(self) -> bool:
        """Whether the object store has been complete."""
        return self._synced

    @property
    def last_turn(self) -> float:
        """Time of the last loop iteration, in monotonic seconds."""
        return self._last_turn

    def phase(self, now: float) -> Phase:
        """Return the phase at `now`, in monotonic seconds."""
        if not self._synced:
            return Phase.SYNCING
        return Phase.LEADING if self.leader.leads(now) else Phase.STANDBY

    def enqueue(self, pools: Iterable[str] | None) -> None:
        """Make pools due, by UID; None is every pool. Has no effect before the store is complete."""
        if not self._synced:
            return
        now, store = time.monotonic(), self.runner.observer.store
        self._policies_due |= pools is None
        for uid in [*store.pools, *store.unreadable] if pools is None else pools:
            self.queue.add(uid, now)

    def mark_synced(self) -> None:
        """Leave phase Syncing: the store is complete, and every pool is due."""
        self._synced = True
        self.enqueue(None)

    def check_leases(self, now: float) -> None:
        """Adopt namespaces whose Lease was acquired; stop leading if the installation's Lease was lost."""
        if acquired := self.leader.refresh(now):
            self.adopt_namespaces(acquired)

    def lead(self, keys: SigningKeys, now: float) -> None:
        """Use these signing keys. The first ones begin a leader term: state of an earlier term is dropped."""
        if self.leader.set_keys(keys, now):
            self.reset()
        self.enqueue(None)

    def reset(self) -> None:
        """Drop what was decided and reported before this process became the leader."""
        self.runner.cleanup.reset()

    def adopt_namespaces(self, namespaces: frozenset[str]) -> None:
        """Start acting in namespaces whose Lease was acquired: what another installation decided there is unknown."""
        self.runner.cleanup.adopt_namespaces(namespaces)
        self.enqueue(None)

    def standby(self) -> None:
        """Make no decisions and drop all metrics of pools and policies; another replica may lead."""
        self.queue.clear_paces()
        reporter.forget_all()

    async def run(self) -> None:
        """Reconcile pools as they come due; never return."""
        while True:
            now = self._last_turn = time.monotonic()
            metrics.LEADER.set(self.leader.leases.valid(now))
            if self.phase(now) is Phase.LEADING:
                self._start_due(now)
                due_at = max(self.queue.next_at(), self._next_pass_at)
                await self.queue.wait(min(due_at - now, MAX_WAIT_SECONDS))
            else:
                self.standby()
                await self.queue.wait(MAX_WAIT_SECONDS)

    def _start_due(self, now: float) -> None:
        """Start a pass over the pools that are due, unless the last decide step still paces the loop.

        Policies of a cluster without pools get a pass of their own when one changes.
        """
        if now < self._next_pass_at:
            return
        batch = self.queue.pop(now)
        if batch or (self._policies_due and not self.runner.observer.store.pools):
            self.lateness.record(self.queue.lateness, now)
            self._policies_due = False
            self._start(batch, now)

    def _start(self, batch: Iterable[str], now: float) -> None:
        self._next_pass_at = now + self.runner.decide_seconds
        task = asyncio.create_task(self._visit(set(batch)), name="pass")
        self._passes.add(task)
        task.add_done_callback(self._passes.discard)

    async def _visit(self, batch: set[str]) -> None:
        """Run one pass; it removes finished pools from `batch`, and the rest is requeued with back-off."""
        metrics.POOLS_DUE.set(len(batch))
        try:
            with metrics.PASS_SECONDS.time():
                await self.runner.run(batch)
        except NotLeading:
            log.info("reconcile pass stopped: this process lost the Lease")
        except Exception:
            log.exception("reconcile pass failed; requeueing its pools with back-off")
            metrics.POOL_FAILURES.labels("PassFailed").inc(len(batch))
        finally:
            self.runner.requeue_all(batch)
