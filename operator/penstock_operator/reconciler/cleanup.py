"""Cleanup of pools' state and metrics: when a pool is deleted, a namespace is adopted, or a leader term begins."""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock_operator.act.executor import PoolActs
from penstock_operator.observe.observer import Observer
from penstock_operator.reconciler import reporter
from penstock_operator.reconciler.workqueue import WorkQueue


@dataclass(frozen=True, slots=True)
class PoolCleanup:
    """Drops reconcile state, metrics and the write history of pools."""

    observer: Observer
    acts: PoolActs
    queue: WorkQueue

    def reset(self) -> None:
        """Drop the state and metrics of all pools: another leader may have decided since."""
        self.observer.state.clear()
        reporter.forget_all()

    def adopt_namespaces(self, namespaces: Iterable[str]) -> None:
        """Drop the state and metrics of the pools in namespaces whose Lease was just acquired."""
        adopted = frozenset(namespaces)
        for pool in self.observer.store.every_pool():
            if pool.namespace in adopted:
                self.drop_metrics(pool.uid)
                self.observer.state.forget(pool.uid)

    def drop_metrics(self, uid: str) -> None:
        """Drop a pool's series: it is gone, or another installation decides on it."""
        reporter.forget_pool(self.observer.state.of(uid))

    def forget(self, uid: str) -> None:
        """Drop everything about a deleted pool."""
        self.queue.forget(uid)
        self.drop_metrics(uid)
        self.observer.state.forget(uid)
        self.observer.confirmations.forget(uid)
        self.acts.forget(uid)
