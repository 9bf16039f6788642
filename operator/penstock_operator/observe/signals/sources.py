"""Signal sources: reads many pools in one round from Prometheus, and from the pods where Prometheus lacks samples."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import aiohttp

from penstock_operator.decide.spec.prometheus import MetricsServer
from penstock_operator.net.http import CallFailed
from penstock_operator.net.pod_calls import PodCalls
from penstock_operator.observe.signals.pod_scrape import read_pods
from penstock_operator.observe.signals.prometheus import QueryRound, missing
from penstock_operator.observe.signals.shared_queries import SharedQueries
from penstock_operator.observed import PodObject, PoolSignals, SignalSource
from penstock_operator.reconcile_state import Fallback

NOT_CONFIGURED = "no Prometheus is configured"


@dataclass(frozen=True, slots=True)
class PoolPods:
    """A pool to read signals of, with its owner-verified pods."""

    uid: str
    namespace: str
    pods: tuple[PodObject, ...]
    server: MetricsServer | None
    """None: no Prometheus is configured, so the pods are read."""
    fallback: Fallback = field(default_factory=Fallback, compare=False)
    """The pool's own, kept between rounds."""
    calls: PodCalls = field(default_factory=PodCalls, compare=False)
    """The pool's own, kept between rounds."""


async def observe_signals(
    session: aiohttp.ClientSession,
    pools: Iterable[PoolPods],
    now: float,
    queries: SharedQueries,
    pods: aiohttp.ClientSession | None = None,
) -> Mapping[str, PoolSignals]:
    """Return the signals of each pool by its UID; failures of pods and servers are in `PoolSignals.problem`.

    `session` is a `http.new_session()`, and `pods` another that trusts the pods' CA (None: `session`); `now` is in
    Unix seconds. One round of queries for each server and tick serves all its pools (`queries`). A pool is read from its
    pods if its server fails, or has no fresh sample of a Ready pod, and where that recurs (`Fallback`); late samples count if
    no pod responds.
    """
    direct = pods or session
    by_server: dict[MetricsServer | None, list[PoolPods]] = defaultdict(list)
    for pool in pools:
        by_server[pool.server].append(pool)
    answers = await asyncio.gather(
        *(
            _read_directly(direct, dict.fromkeys(each, NOT_CONFIGURED), now)
            if server is None
            else _read_server(queries.query(session, server), each, now, direct)
            for server, each in by_server.items()
        )
    )
    return {uid: signals for answer in answers for uid, signals in answer.items()}


async def _read_server(
    pending: Awaitable[QueryRound],
    pools: Sequence[PoolPods],
    now: float,
    direct: aiohttp.ClientSession,
) -> Mapping[str, PoolSignals]:
    try:
        query_round = await pending
        signals = {pool.uid: query_round.signals(pool.namespace, pool.pods) for pool in pools}
    except CallFailed as error:
        failed = {pool: pool.fallback.update(str(error), now) for pool in pools}
        return await _read_directly(direct, failed, now)
    lacking = {pool: missing(signals[pool.uid], pool.pods, now) for pool in pools}
    problems = {pool: pool.fallback.update(_problem(pods), now) for pool, pods in lacking.items()}
    read = await _read_directly(direct, {pool: why for pool, why in problems.items() if why}, now)
    return {**signals, **{uid: _best(signals[uid], own) for uid, own in read.items()}}


def _best(late: PoolSignals, own: PoolSignals) -> PoolSignals:
    """Return the signals read from the pods, or the late ones of Prometheus if no pod responds."""
    if own.source is not SignalSource.NONE or not late.samples:
        return own
    return replace(late, problem=own.problem)


async def _read_directly(
    session: aiohttp.ClientSession, pools: Mapping[PoolPods, str], now: float
) -> Mapping[str, PoolSignals]:
    """Read the pods of each pool; the values are the reasons."""
    signals = await asyncio.gather(
        *(read_pods(session, pool.pods, now, reason, pool.calls) for pool, reason in pools.items())
    )
    return {pool.uid: each for pool, each in zip(pools, signals, strict=True)}


def _problem(pods: Sequence[PodObject]) -> str:
    """Return why a server's response is not used, empty if no pod is missing; stable while the same pods are missing."""
    if not pods:
        return ""
    names = ", ".join(sorted(pod.name for pod in pods)[:3])
    more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
    return f"Prometheus has no sample under 10 s old, or scrapes less often than every 5 s: {names}{more}"
