"""Backfill: the last minutes from Prometheus, for pools with serving pods that this process visits first."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observe.signals.sources import PoolPods
from penstock_operator.observed import PoolSignals

log = logging.getLogger(__name__)


async def observe_past(
    session: aiohttp.ClientSession, pools: Sequence[PoolPods], queries: SharedQueries
) -> Mapping[str, PoolSignals]:
    """Return the past of each pool by its UID; a pool without one is left out.

    If a server fails, or has too many series for one response, its pools start from their checkpoints alone.
    """
    by_server: dict[MetricsServer, list[PoolPods]] = defaultdict(list)
    for pool in pools:
        if pool.server is not None:
            by_server[pool.server].append(pool)
    answers = await asyncio.gather(
        *(_read(session, server, each, queries) for server, each in by_server.items())
    )
    return {uid: signals for answer in answers for uid, signals in answer.items()}


async def _read(
    session: aiohttp.ClientSession,
    server: MetricsServer,
    pools: Sequence[PoolPods],
    queries: SharedQueries,
) -> Mapping[str, PoolSignals]:
    try:
        query_round = await queries.query_past(session, server)
    except CallFailed as error:
        log.info(
            "the last minutes could not be read, so pools start from their checkpoints: %s", error
        )
        return {}
    if not query_round.targets:
        return {}
    return {pool.uid: query_round.signals(pool.namespace, pool.pods) for pool in pools}
