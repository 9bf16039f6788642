"""Observe step of a pass: builds the view of each pool from its signals, children, pods and acknowledgements."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import aiohttp

from penstock_operator.decide.cost.prices import needs_nodes
from penstock_operator.decide.spec.prometheus import MetricsServer, metrics_server
from penstock_operator.errors import ClusterError
from penstock_operator.observe.batch_status import BatchReader
from penstock_operator.observe.cluster.absence import Confirmations
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.gateway import NO_ANSWERS
from penstock_operator.observe.cluster.views import (
    ObservedExtras,
    namespace_labels,
    owned_pods,
    pool_view,
    variant_views,
)
from penstock_operator.observe.gateway_status import GatewayReader
from penstock_operator.observe.nodes import NodeReader
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods, observe_signals
from penstock_operator.observed import NO_NODES, NodeView, PoolObject, PoolView, SignalSource
from penstock_operator.reconcile_state import FRESH_SECONDS, ReconcileState
from penstock_operator.telemetry import metrics
from penstock_operator.telemetry.logs import fields

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Observer:
    """Observes pools; changes nothing but the signals in the reconcile state."""

    store: ObjectStore
    confirmations: Confirmations
    session: aiohttp.ClientSession
    state: ReconcileState
    metrics_server: MetricsServer | None
    """The installation's Prometheus; a policy may name another. None: the pods are scraped."""
    pods_session: aiohttp.ClientSession
    """Session for calls to pods: it trusts their CA."""
    queries: SharedQueries = field(default_factory=SharedQueries)
    gateways: GatewayReader | None = None
    """None: this installation has no gateway."""
    nodes: NodeReader | None = None
    """None: nodes are never read."""
    batches: BatchReader | None = None
    """None: batch work is not observed."""

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        """Return the views of the pools; one that cannot be observed is logged and left out."""
        await self._read_signals(pools, now)
        views = await asyncio.gather(*(self._view(pool, now) for pool in pools))
        return [view for view in views if view is not None]

    async def _read_signals(self, pools: Sequence[PoolObject], now: float) -> None:
        """Read the signals that are not fresh, all pools in one round."""
        stale = [
            pool
            for pool in pools
            if not 0 <= now - self.state.of(pool.uid).signals_at < FRESH_SECONDS
        ]
        if not stale:
            return
        targets = [self._pods_of(pool) for pool in stale]
        by_pool = await observe_signals(self.session, targets, now, self.queries, self.pods_session)
        for target in targets:
            server = "" if target.server is None else target.server.url
            signals = replace(by_pool[target.uid], server=server)
            self.state.of(target.uid).record_signals(signals, now)
            matters = target.server is not None or signals.source is SignalSource.NONE
            if signals.problem and matters and target.pods:
                metrics.OBSERVE_FAILURES.labels(signals.source.value).inc()

    def _pods_of(self, pool: PoolObject) -> PoolPods:
        state = self.state.of(pool.uid)
        state.metrics_server = metrics_server(
            pool,
            namespace_labels(self.store, pool.namespace),
            tuple(self.store.policies.values()),
            self.metrics_server,
            state.metrics_server,
        )
        pods = tuple(owned_pods(self.store, pool.uid))
        state.keep_pods({pod.uid for pod in pods})
        return PoolPods(
            pool.uid, pool.namespace, pods, state.metrics_server, state.fallback, state.calls
        )

    async def _view(self, pool: PoolObject, now: float) -> PoolView | None:
        about = fields(namespace=pool.namespace, pool=pool.name)
        try:
            return await self._observed(pool, now)
        except ClusterError as error:
            log.warning(
                "%s/%s: failed to observe the pool: %s",
                pool.namespace, pool.name, error, extra=about,
            )  # fmt: skip
        except Exception:
            log.exception(
                "%s/%s: observing the pool failed", pool.namespace, pool.name, extra=about
            )
            metrics.POOL_FAILURES.labels("NotObserved").inc()
        return None

    async def _observed(self, pool: PoolObject, now: float) -> PoolView:
        state = self.state.of(pool.uid)
        confirmed = await self.confirmations.confirm(pool, now)
        answers = NO_ANSWERS if self.gateways is None else await self.gateways.read(pool, now)
        batches = None if self.batches is None else await self.batches.read(pool, now)
        extras = ObservedExtras(
            confirmed,
            state.signals,
            state.acknowledgements,
            state.rejections,
            answers,
            await self._nodes(pool, now),
            batches,
            variant_views(self.store, pool, self.state.variant_figures),
        )
        return pool_view(self.store, pool, extras)

    async def _nodes(self, pool: PoolObject, now: float) -> NodeView:
        """Return the labels of the nodes of the pool's pods, if a price depends on them."""
        policies = self.store.policies.values()
        labels = namespace_labels(self.store, pool.namespace)
        if self.nodes is None or not needs_nodes(pool.labels, labels, policies):
            return NO_NODES
        pods = owned_pods(self.store, pool.uid)
        return await self.nodes.read({pod.node for pod in pods if pod.node}, now)
