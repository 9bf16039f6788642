"""Signals of many pools in one round: Prometheus where it can, the pods themselves where it cannot."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed
from penstock_operator.observe.signals.pod_scrape import read_pods
from penstock_operator.observe.signals.prometheus import QueryRound, missing
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observed import PodObject, PoolSignals

NOT_CONFIGURED = "no Prometheus is configured"


@dataclass(frozen=True, slots=True)
class PoolPods:
    """A pool whose signals are wanted, with its owner-verified pods."""

    uid: str
    namespace: str
    pods: tuple[PodObject, ...]
    server: MetricsServer | None
    """None: no Prometheus is configured for it; the pods are read."""


async def observe_signals(
    session: aiohttp.ClientSession,
    pools: Iterable[PoolPods],
    now: float,
    rounds: SharedQueries,
    pods: aiohttp.ClientSession | None = None,
) -> Mapping[str, PoolSignals]:
    """Return the signals of each pool by its UID; never raises for a pod's or a server's sake.

    `session` is a `http.new_session()`, `pods` another that trusts the pods' authority (None: the same one);
    `now` Unix seconds. One PromQL round a server and tick serves all its pools (`rounds`). A pool is read from its pods where its server fails, or has no fresh sample of a Ready pod.
    """
    direct = pods or session
    by_server: dict[MetricsServer | None, list[PoolPods]] = defaultdict(list)
    for pool in pools:
        by_server[pool.server].append(pool)
    answers = await asyncio.gather(
        *(
            _read_directly(direct, dict.fromkeys(each, NOT_CONFIGURED), now)
            if server is None
            else _read_server(rounds.query(session, server), each, now, direct)
            for server, each in by_server.items()
        )
    )
    return {uid: signals for one in answers for uid, signals in one.items()}


async def _read_server(
    asked: Awaitable[QueryRound],
    pools: Sequence[PoolPods],
    now: float,
    direct: aiohttp.ClientSession,
) -> Mapping[str, PoolSignals]:
    try:
        told = await asked
        found = {pool.uid: told.signals(pool.namespace, pool.pods) for pool in pools}
    except CallFailed as error:
        return await _read_directly(direct, {pool: str(error) for pool in pools}, now)
    unseen = {pool: missing(found[pool.uid], pool.pods, now) for pool in pools}
    poor = {pool: _poor(pods) for pool, pods in unseen.items() if pods}
    return {**found, **await _read_directly(direct, poor, now)}


async def _read_directly(
    session: aiohttp.ClientSession, pools: Mapping[PoolPods, str], now: float
) -> Mapping[str, PoolSignals]:
    """Read each pool's pods; the values say why."""
    found = await asyncio.gather(
        *(read_pods(session, pool.pods, now, why) for pool, why in pools.items())
    )
    return {pool.uid: signals for pool, signals in zip(pools, found, strict=True)}


def _poor(pods: Sequence[PodObject]) -> str:
    """Say why a server's answer was not used; the same words while the same pods are missing."""
    names = ", ".join(sorted(pod.name for pod in pods)[:3])
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f"Prometheus has no sample under 10 s old, or scrapes more slowly than every 5 s: {names}{more}"
