"""`DemandWatch`: learns at once that a gateway holds a request of a pool, by a call that the gateway's pods answer then.

The answer only makes the pool due: the pass reads the gateway's status. So nothing is stored that could be outdated
when the operator or a gateway restarts: a new watch is answered at once, with all that is held.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final

import aiohttp
import msgspec

from penstock_api import names
from penstock_operator.decide.route import live_route
from penstock_operator.kube import kinds
from penstock_operator.net.http import CallFailed, HttpCall, call, pod_url
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.gateway import all_gateway_pods, is_wanted
from penstock_operator.observe.cluster.relist import Enqueue
from penstock_operator.observe.gateway_status import GatewayReader
from penstock_operator.observed import PodObject, PoolObject

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""Time between two looks for pods of gateways to watch."""
ANSWER_SECONDS: Final = 30.0
"""Time for an answer; a gateway without news answers after 20 s."""
PAUSE_SECONDS: Final = 0.1
"""Time from an answer to the next call: a gateway that always has news costs no more than this allows."""
LIMIT_BYTES: Final = 256 * 1024
"""Size of an answer; each held pool of the namespace takes about 100 bytes."""


class _Demand(msgspec.Struct):
    version: str
    pools: dict[str, msgspec.Raw]
    """By the name of the pool."""


_DECODER: Final = msgspec.json.Decoder(_Demand)


@dataclass(slots=True)
class DemandWatch:
    """One open request for each pod of each gateway that holds requests, while `leads` is true; one that drains may hold some."""

    session: aiohttp.ClientSession
    store: ObjectStore
    reader: GatewayReader
    enqueue: Enqueue
    leads: Callable[[], bool]
    _watches: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            while True:
                self._follow()
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            for task in self._watches.values():
                task.cancel()

    def _follow(self) -> None:
        """Start the watches of new pods, and end those of pods that are gone."""
        pods = dict(self._pods()) if self.leads() else {}
        for uid in [uid for uid, task in self._watches.items() if uid not in pods or task.done()]:
            self._watches.pop(uid).cancel()
        for uid, (namespace, pod) in pods.items():
            if uid not in self._watches:
                watch = self._watch(namespace, pod)
                self._watches[uid] = asyncio.create_task(watch, name=f"demand {pod.name}")

    def _pods(self) -> Iterator[tuple[str, tuple[str, PodObject]]]:
        namespaces = {pool.namespace for pool in self.store.pools.values() if self._is_held(pool)}
        for namespace in namespaces:
            for pod in all_gateway_pods(self.store, namespace):
                if pod.ip:
                    yield pod.uid, (namespace, pod)

    def _is_held(self, pool: PoolObject) -> bool:
        service = self.store.by_name(kinds.SERVICE, pool.namespace, pool.name)
        if service is None or not is_wanted(pool) or live_route(service).port is None:
            return False
        annotations = service.manifest["metadata"].get("annotations") or {}
        return names.ANNOTATION_GATEWAY_HOLD in annotations

    async def _watch(self, namespace: str, pod: PodObject) -> None:
        """Call a pod again and again; an error ends the watch, and the next look starts another."""
        url = pod_url(pod.ip or "", names.GATEWAY_STATUS_PORT, names.PATH_GATEWAY_HELD)
        version = ""
        try:
            while True:
                query = url.with_query(known=version)
                request = HttpCall("GET", query, LIMIT_BYTES, seconds=ANSWER_SECONDS)
                status, body = await call(self.session, request)
                if status != HTTPStatus.OK:
                    raise CallFailed(f"responded {status}")
                demand = _DECODER.decode(body)
                version = demand.version
                self._wake(namespace, demand.pools)
                await asyncio.sleep(PAUSE_SECONDS)
        except (CallFailed, msgspec.MsgspecError, RecursionError) as error:
            log.debug("%s/%s: %s: %s", namespace, pod.name, names.PATH_GATEWAY_HELD, error)

    def _wake(self, namespace: str, pools: Collection[str]) -> None:
        waiting = [
            pool.uid
            for pool in self.store.pools.values()
            if pool.namespace == namespace and pool.name in pools
        ]
        if waiting:
            self.reader.forget(namespace)
            self.enqueue(frozenset(waiting))
