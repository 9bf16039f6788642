"""One look at the pools of a pass: their signals, their names, their children and pods -> views."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer, metrics_server
from penstock_operator.errors import ClusterError
from penstock_operator.observe.cluster.absence import Confirmations
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import (
    ObservedExtras,
    namespace_labels,
    owned_pods,
    pool_view,
)
from penstock_operator.observe.signals.backfill import observe_past
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import PoolObject, PoolSignals, PoolView, SignalSource
from penstock_operator.reconcile_state import FRESH_SECONDS, ReconcileState
from penstock_operator.telemetry import metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Observer:
    """Looks; changes nothing but the pass's memory of what was heard."""

    store: ObjectStore
    confirmations: Confirmations
    session: aiohttp.ClientSession
    memory: ReconcileState
    metrics_server: MetricsServer | None
    """Where signals come from unless a policy says otherwise."""
    pods_session: aiohttp.ClientSession
    """For calls to pods: it trusts their authority."""
    rounds: SharedQueries = field(default_factory=SharedQueries)

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        """Return the views of those pools that could be looked at; nothing is decided blindly."""
        await self._read_signals(pools, now)
        past = await self._read_past(pools)
        views = await asyncio.gather(*(self._view(pool, now, past.get(pool.uid)) for pool in pools))
        return [view for view in views if view is not None]

    async def _read_signals(self, pools: Sequence[PoolObject], now: float) -> None:
        """Read what is not fresh, all pools in one round; a visit that an event caused has it already."""
        stale = [p for p in pools if now - self.memory.of(p.uid).signals_at >= FRESH_SECONDS]
        if not stale:
            return
        asked = [self._pods_of(pool) for pool in stale]
        heard = await observe_signals(self.session, asked, now, self.rounds, self.pods_session)
        for pool in asked:
            signals = heard[pool.uid]
            self.memory.of(pool.uid).record_signals(signals, now)
            wanted = pool.server is not None or signals.source is SignalSource.NONE
            if signals.problem and wanted and pool.pods:
                metrics.OBSERVE_FAILURES.labels(signals.source.value).inc()

    async def _read_past(self, pools: Sequence[PoolObject]) -> Mapping[str, PoolSignals]:
        """Read the last minutes of pools that were just met and whose signals come from a server."""
        met = []
        for pool in pools:
            memory = self.memory.of(pool.uid)
            if memory.law_state is not None or memory.signals.source is not SignalSource.PROMETHEUS:
                continue
            pods = tuple(owned_pods(self.store, pool.uid))
            if any(one.ready for one in pods):
                met.append(PoolPods(pool.uid, pool.namespace, pods, memory.metrics_server))
        if not met:
            return {}
        return await observe_past(self.session, met, self.rounds)

    def _pods_of(self, pool: PoolObject) -> PoolPods:
        memory = self.memory.of(pool.uid)
        memory.metrics_server = metrics_server(
            pool,
            namespace_labels(self.store, pool.namespace),
            tuple(self.store.policies.values()),
            self.metrics_server,
            memory.metrics_server,
        )
        pods = tuple(owned_pods(self.store, pool.uid))
        memory.keep_pods({pod.uid for pod in pods})
        return PoolPods(pool.uid, pool.namespace, pods, memory.metrics_server)

    async def _view(
        self, pool: PoolObject, now: float, past: PoolSignals | None
    ) -> PoolView | None:
        memory = self.memory.of(pool.uid)
        try:
            confirmed = await self.confirmations.confirm(pool, now)
        except ClusterError as error:
            log.warning("%s/%s could not be looked at: %s", pool.namespace, pool.name, error)
            return None
        heard = ObservedExtras(
            confirmed, memory.signals, memory.acknowledgements, memory.rejections, past
        )
        return pool_view(self.store, pool, heard)
