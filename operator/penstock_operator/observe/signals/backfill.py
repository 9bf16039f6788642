"""What the servers still have of the last minutes, for pools that this process meets with pods already serving."""

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
    session: aiohttp.ClientSession, pools: Sequence[PoolPods], rounds: SharedQueries
) -> Mapping[str, PoolSignals]:
    """Return the past of each pool by its UID, as far as its server tells it; never raises for a server's sake.

    Where a server has too many series to be asked about in one answer, pools go on from their checkpoints alone.
    """
    by_server: dict[MetricsServer, list[PoolPods]] = defaultdict(list)
    for pool in pools:
        if pool.server is not None:
            by_server[pool.server].append(pool)
    found = await asyncio.gather(
        *(_read(session, server, each, rounds) for server, each in by_server.items())
    )
    return {uid: signals for one in found for uid, signals in one.items()}


async def _read(
    session: aiohttp.ClientSession,
    server: MetricsServer,
    pools: Sequence[PoolPods],
    rounds: SharedQueries,
) -> Mapping[str, PoolSignals]:
    try:
        told = await rounds.query_past(session, server)
    except CallFailed as error:
        log.info("the last minutes are not known, only checkpoints: %s", error)
        return {}
    if not told.targets:
        return {}
    return {pool.uid: told.signals(pool.namespace, pool.pods) for pool in pools}
