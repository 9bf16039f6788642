"""Signals of many pools in one round: Prometheus where it can, the pods themselves where it cannot."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import aiohttp

from penstock_operator.observed import PodObject, PoolSignals


@dataclass(frozen=True, slots=True)
class PoolPods:
    """A pool whose signals are wanted, with its owner-verified pods."""

    uid: str
    namespace: str
    pods: tuple[PodObject, ...]
    prometheus_url: str | None
    """None: no Prometheus is configured for it; the pods are read."""


async def observe_signals(
    session: aiohttp.ClientSession, pools: Iterable[PoolPods], now: float
) -> Mapping[str, PoolSignals]:
    """Return the signals of each pool by its UID; never raises for a pod's or a server's sake.

    `session` is a `calls.new_session()`. One PromQL round a server serves all its pools.
    """
    raise NotImplementedError
