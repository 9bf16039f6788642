"""`GatewayReader`: the status of a namespace's gateway, read from its pods and shared by the pools of a pass."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any

import aiohttp

from penstock_api.names import GATEWAY_STATUS_PORT, PATH_GATEWAY_STATUS
from penstock_operator.net.http import CallFailed, HttpCall, call, pod_url
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.gateway import (
    NO_ANSWERS,
    GatewayAnswers,
    all_gateway_pods,
    counters,
    gateway_pods,
    is_wanted,
    listener_port,
)
from penstock_operator.observe.offered import OfferedCounter
from penstock_operator.observe.shared_answers import SharedAnswers
from penstock_operator.observed import OfferedDemand, PodObject, PoolObject

LIMIT_BYTES = 4 * 1024 * 1024
UNREADY_SECONDS = 0.5
"""Time limit of a pod that may be on a node without power: the pass waits for it."""
CACHE_SECONDS = 1.0
"""Age below which an answer is reused: the pools of one pass share it, and an opening pool waits no longer than this."""


@dataclass(slots=True)
class GatewayReader:
    """Reads the pods of gateways."""

    session: aiohttp.ClientSession
    store: ObjectStore
    _answers: SharedAnswers[GatewayAnswers] = field(
        default_factory=lambda: SharedAnswers(CACHE_SECONDS)
    )
    _counters: dict[tuple[str, str], OfferedCounter] = field(default_factory=dict)
    """By namespace and pool."""

    async def read(self, pool: PoolObject, now: float) -> GatewayAnswers:
        """Return what the gateway's pods answer, if the pool is to be routed; failures are answers."""
        if not is_wanted(pool) or listener_port(self.store, pool) is None:
            return NO_ANSWERS
        read = partial(self._read_pods, pool.namespace, now)
        return await self._answers.of(pool.namespace, now, read)

    def forget(self, namespace: str) -> None:
        """Read a namespace's gateway again at the next pass: its answer has changed."""
        self._answers.forget(namespace)

    async def _read_pods(self, namespace: str, now: float) -> GatewayAnswers:
        pods = [pod for pod in all_gateway_pods(self.store, namespace) if pod.ip]
        answers = dict(await asyncio.gather(*(self._answer(pod.ip or "", pod) for pod in pods)))
        ready = [pod for pod in gateway_pods(self.store, namespace) if pod.name in answers]
        by_pod = {pod.name: answers.pop(pod.name) for pod in ready}
        created = {pod.name: pod.created for pod in ready}
        rates = dict(self._rates(namespace, counters(by_pod), created, now))
        return GatewayAnswers(by_pod, rates, tuple(answers.values()))

    def _rates(
        self,
        namespace: str,
        counted: Mapping[str, Mapping[str, int]],
        created: Mapping[str, float],
        now: float,
    ) -> Iterator[tuple[str, OfferedDemand]]:
        """Record the counters; yield the rate of each pool. A pool that is gone is forgotten."""
        exists = self.store.pool_by_name
        for key in [key for key in self._counters if not exists(*key)]:
            del self._counters[key]
        for name in [name for name in counted if exists(namespace, name)]:
            counter = self._counters.setdefault((namespace, name), OfferedCounter())
            counter.record(counted[name], created, now)
            if (rate := counter.rate()) is not None:
                yield name, rate

    async def _answer(self, ip: str, pod: PodObject) -> tuple[str, Mapping[str, Any] | str]:
        url = pod_url(ip, GATEWAY_STATUS_PORT, PATH_GATEWAY_STATUS)
        seconds = None if pod.ready and not pod.terminating else UNREADY_SECONDS
        try:
            request = HttpCall("GET", url, LIMIT_BYTES, seconds=seconds)
            status, body = await call(self.session, request)
            answer = json.loads(body) if status == HTTPStatus.OK else None
        except CallFailed as error:
            return pod.name, f"{PATH_GATEWAY_STATUS} {error}"
        except (ValueError, RecursionError):
            return pod.name, f"{PATH_GATEWAY_STATUS} returned something that is not JSON"
        if not isinstance(answer, dict):
            return pod.name, f"{PATH_GATEWAY_STATUS} responded {status}"
        return pod.name, answer
