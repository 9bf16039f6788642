"""`GeneratingPool`: pods that generate text behind the gateways of a `World`, and the planned changes of them."""

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from penstock_api import names
from penstock_api.hold import HoldLimits
from tests.bench.losses import generating_pods
from tests.bench.losses.generating_pods import GeneratingPod
from tests.bench.losses.pod_objects import PodObjects
from tests.support.gateway import api_server
from tests.support.gateway.stack import own_network
from tests.unit.runtime.protocols.openai.served import save_tiny_model

POOL: Final = "chat"
PORT: Final = 10002
PODS: Final = 2
MAX_PODS: Final = 3
FIRST_ADDRESS: Final = 10
ADDRESSES: Final = 200
SERVICE: Final = 1
"""Host number of the Service's address."""
CHUNK_BYTES: Final = 65536


@dataclass(slots=True)
class GeneratingPool:
    """The pods, and the address of their Service, which leads each connection to a gateway."""

    random: random.Random
    objects: PodObjects
    gateway: Callable[[], str]
    """Address of the gateway that a new connection reaches."""
    hold: HoldLimits
    network: str = field(default_factory=own_network)
    pods: dict[str, GeneratingPod] = field(default_factory=dict)
    """Pods that are not being deleted."""
    taken_over: int = 0
    """Generations that pods which are gone took over from others."""
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="penstock-losses-")))
    change: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held during a change."""
    _session: aiohttp.ClientSession = field(default_factory=aiohttp.ClientSession)
    _service: asyncio.Server | None = None
    _started: int = 0
    _ends: dict[asyncio.Task[None], GeneratingPod] = field(default_factory=dict)

    async def start(self) -> None:
        """Start the Service and the pods."""
        save_tiny_model(self.folder / "model")
        generating_pods.preload()
        self._service = await asyncio.start_server(
            self._forward, f"{self.network}.{SERVICE}", names.CLIENT_PORT
        )
        service = api_server.service(POOL, PORT)
        service["metadata"]["annotations"][names.ANNOTATION_GATEWAY_HOLD] = (
            self.hold.as_annotation()
        )
        await self.objects.api.put("services", service)
        await self.scale(PODS)

    async def stop(self) -> None:
        """End everything."""
        for task in self._ends:
            task.cancel()
        await asyncio.gather(*self._ends, return_exceptions=True)
        for pod in [*self.pods.values(), *self._ends.values()]:
            pod.process.kill()
            await pod.wait()
        if self._service is not None:
            self._service.close()
        await self._session.close()
        shutil.rmtree(self.folder)

    async def scale(self, replicas: int) -> None:
        """Start or delete pods until there are this many."""
        await asyncio.gather(*(self._start_pod() for _ in range(replicas - len(self.pods))))
        for name in self.random.sample(sorted(self.pods), max(len(self.pods) - replicas, 0)):
            await self.delete_pod(name)

    async def delete_pod(self, name: str) -> None:
        """Publish the deletion timestamp and send SIGTERM at the same time."""
        pod = self.pods.pop(name)
        self.taken_over += await pod.taken_over(self._session)
        await self.objects.put(api_server.pod(name, POOL, pod.address, deleting=True))
        pod.terminate()
        self._ends[asyncio.create_task(self._forget(name, pod))] = pod

    def urls(self) -> list[str]:
        """Return the URLs of the pods themselves."""
        return [f"http://{pod.address}:{names.CLIENT_PORT}" for pod in self.pods.values()]

    async def total_taken_over(self) -> int:
        """Return the number of generations that pods took over from others."""
        present = [await pod.taken_over(self._session) for pod in self.pods.values()]
        return self.taken_over + sum(present)

    async def _start_pod(self) -> None:
        number, self._started = self._started, self._started + 1
        name = f"{POOL}-{number}"
        address = f"{self.network}.{FIRST_ADDRESS + number % ADDRESSES}"
        url = f"http://{self.network}.{SERVICE}:{names.CLIENT_PORT}"
        pod = generating_pods.start(address, url, self.folder / "model", self.folder / name)
        await pod.until_ready(self._session)
        self.pods[name] = pod
        await self.objects.put(api_server.pod(name, POOL, address))

    async def _forget(self, name: str, pod: GeneratingPod) -> None:
        await pod.wait()
        await self.objects.delete(name)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Lead a connection to a gateway, as kube-proxy does."""
        try:
            back, forth = await asyncio.open_connection(self.gateway(), PORT)
        except OSError:
            writer.transport.abort()
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_copy(reader, forth))
            tasks.create_task(_copy(back, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until either side closes, and close the other."""
    try:
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
        writer.close()
    except OSError:
        writer.transport.abort()
