"""`World`: gateways with real Envoys and emulated pods as processes, and the API server that says what there is."""

import asyncio
import random
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from penstock_api import names
from penstock_api.hold import HoldLimits
from tests.bench.losses.generating_pool import POOL as POOL_OF_TEXT
from tests.bench.losses.generating_pool import GeneratingPool
from tests.bench.losses.haproxy import HAProxy
from tests.bench.losses.pod_objects import PodObjects
from tests.bench.losses.vllm_router import VllmRouter
from tests.support.gateway import api_server
from tests.support.gateway.api_server import ApiServer
from tests.support.gateway.stack import Process, Stack, own_network, stack

POOL: Final = "demo"
PORT: Final = 10001
ADDRESSES: Final = 200
SETTINGS: Final = {"PENSTOCK_ACCEPT_SECONDS": "2", "PENSTOCK_DRAIN_SECONDS": "60"}
HOLD: Final = HoldLimits(max_seconds=60, max_requests=1000, per_pod=64)
PROXY_SECONDS: Final = 1.0
"""Largest delay after which clients' connections follow a change of the gateway's pods, as with kube-proxy."""
UNREADY_SECONDS: Final = 1.0
"""Largest delay after which the kubelet reports a killed pod."""
LINGER_SECONDS: Final = 5.0
"""Time for which a pod behind a Service accepts requests after SIGTERM, as the runtime does."""
NOWHERE: Final = 9
"""Host number of an address at which nothing listens: that of a Service without endpoints."""


class Front(StrEnum):
    """What clients reach."""

    GATEWAY = "Gateway"
    SERVICE = "Service"
    HAPROXY = "HAProxy"
    VLLM_ROUTER = "vllm-router"


RIVALS: Final = {Front.HAPROXY: HAProxy, Front.VLLM_ROUTER: VllmRouter}
"""Programs of others in front of the pods."""


@dataclass(slots=True)
class Gateway:
    """A pod of the gateway."""

    stack: Stack
    life: AsyncExitStack
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the event that is changing its processes."""


@dataclass(slots=True)
class World:
    """Everything that events change. A Deployment keeps `replicas` pods, unless the pool is at zero."""

    random: random.Random
    replicas: int
    api: ApiServer
    front: Front = Front.GATEWAY
    network: str = field(default_factory=own_network)
    """Of the pods."""
    gateways: list[Gateway] = field(default_factory=list)
    """Those that new connections reach."""
    pods: dict[str, Process] = field(default_factory=dict)
    """Pods that are not being deleted."""
    endpoints: dict[str, str] = field(default_factory=dict)
    """Addresses of the pods by name, which a plain Service leads new connections to; kube-proxy follows later."""
    down: set[str] = field(default_factory=set)
    """Addresses of gateways whose Envoy was killed and is not ready again."""
    generating: GeneratingPool | None = None
    """A second pool, whose pods generate text."""
    objects: PodObjects = field(init=False)
    rival: HAProxy | VllmRouter | None = None
    _started: int = 0
    _ends: dict[asyncio.Task[None], Process] = field(default_factory=dict)
    """Pods that are being deleted."""
    _pool: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.objects = PodObjects(self.api)

    async def start(self, gateways: int) -> None:
        """Start gateways and pods."""
        service = api_server.service(POOL, PORT)
        service["metadata"]["annotations"][names.ANNOTATION_GATEWAY_HOLD] = HOLD.as_annotation()
        await self.api.put("services", service)
        for _ in range(gateways if self.front is Front.GATEWAY else 0):
            self.gateways.append(await self.new_gateway())
        if self.front in RIVALS:
            addresses = [f"{self.network}.{10 + number}" for number in range(ADDRESSES)]
            self.rival = RIVALS[self.front](f"{self.network}.1", PORT, addresses)
            await self.rival.start()
        await self.scale(self.replicas)

    async def stop(self) -> None:
        """End every process."""
        for task in self._ends:
            task.cancel()
        await asyncio.gather(*self._ends, return_exceptions=True)
        for process in [*self.pods.values(), *self._ends.values()]:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if self.generating is not None:
            await self.generating.stop()
        if self.rival is not None:
            await self.rival.stop()
        for gateway in self.gateways:
            await gateway.life.aclose()

    def target(self) -> tuple[str, int]:
        """Return the address that a new connection reaches."""
        if self.front is Front.SERVICE:
            addresses = list(self.endpoints.values()) or [f"{self.network}.{NOWHERE}"]
            return self.random.choice(addresses), names.CLIENT_PORT
        return (self.rival.host if self.rival else self.gateway()), PORT

    def is_down(self, address: str) -> bool:
        """Return whether the Envoy at an address was killed and is not ready again."""
        return address in self.down

    def gateway(self) -> str:
        """Return the address of the gateway that a new connection reaches."""
        return self.random.choice(self.gateways).stack.host

    async def start_generating(self) -> GeneratingPool:
        """Start the pool of pods that generate text, and return it once every gateway listens for it."""
        self.generating = pool = GeneratingPool(self.random, self.objects, self.gateway, HOLD)
        await pool.start()
        for gateway in self.gateways:
            await gateway.stack.until_endpoints(len(pool.pods), POOL_OF_TEXT)
        return pool

    async def new_gateway(self) -> Gateway:
        """Start a gateway, and return it once it is Ready."""
        life = AsyncExitStack()
        own = await life.enter_async_context(stack(SETTINGS, self.api))
        await asyncio.gather(own.start_controller(), own.start_envoy())
        await own.until_ready()
        return Gateway(own, life)

    async def retire(self, gateway: Gateway) -> None:
        """Delete a gateway's pod: it drains while kube-proxy learns of it."""
        controller, envoy = gateway.stack.controller, gateway.stack.envoy
        assert controller is not None
        assert envoy is not None
        controller.send_signal(signal.SIGTERM)
        await asyncio.sleep(self.random.uniform(0, PROXY_SECONDS))
        self.gateways.remove(gateway)
        await asyncio.wait_for(envoy.wait(), 120)
        await controller.wait()
        await gateway.life.aclose()

    async def scale(self, replicas: int) -> None:
        """Start or delete pods until there are this many."""
        async with self._pool:
            self.replicas = replicas
            while len(self.pods) < replicas:
                await self._start_pod()
            for name in self.random.sample(sorted(self.pods), max(len(self.pods) - replicas, 0)):
                await self._delete_pod(name)

    async def kill_pod(self) -> None:
        """SIGKILL a pod; the kubelet reports it some time later, and a new one replaces it."""
        async with self._pool:
            if not self.pods:
                return
            name = self.random.choice(sorted(self.pods))
            process = self.pods.pop(name)
        process.kill()
        await process.wait()
        await asyncio.sleep(self.random.uniform(0, UNREADY_SECONDS))
        await self._follow(name, "maint")
        await self.objects.delete(name)
        self._leave_service(name)
        await self.scale(self.replicas)

    async def evict_pod(self) -> None:
        """Delete a pod; a new one replaces it."""
        async with self._pool:
            if self.pods:
                await self._delete_pod(self.random.choice(sorted(self.pods)))
        await self.scale(self.replicas)

    async def _start_pod(self) -> None:
        number = self._started % ADDRESSES
        name, self._started = f"pod-{self._started}-{number}", self._started + 1
        address = f"{self.network}.{10 + number}"
        linger = LINGER_SECONDS if self.front is Front.SERVICE else 0.0
        words = (address, str(names.CLIENT_PORT), str(number), str(linger))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.losses.pod", *words, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        assert await process.stdout.readline() == b"listening\n"
        self.pods[name] = process
        self.endpoints[name] = address
        await self.objects.put(api_server.pod(name, POOL, address))
        await self._follow(name, "ready")

    async def _delete_pod(self, name: str) -> None:
        """Publish the deletion timestamp and send SIGTERM at the same time, as the API server and the kubelet do."""
        process = self.pods.pop(name)
        number = int(name.rpartition("-")[2])
        address = f"{self.network}.{10 + number}"
        await self.objects.put(api_server.pod(name, POOL, address, deleting=True))
        await self._follow(name, "drain")
        process.terminate()
        self._leave_service(name)
        task = asyncio.create_task(self._forget(name, process))
        self._ends[task] = process

    async def _follow(self, name: str, state: str) -> None:
        """Let a rival that is the front follow a pod at once."""
        if self.rival is not None:
            await self.rival.set(int(name.rpartition("-")[2]), state)

    def _leave_service(self, name: str) -> None:
        """Let kube-proxy forget a pod some time later."""
        delay = self.random.uniform(0, PROXY_SECONDS)
        asyncio.get_running_loop().call_later(delay, self.endpoints.pop, name)

    async def _forget(self, name: str, process: Process) -> None:
        await process.wait()
        await self.objects.delete(name)
