"""A whole gateway on loopback addresses of its own: API server stand-in, controller, Envoy and pods, as processes."""

import asyncio
import secrets
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from penstock_api import names
from penstock_api.envoy import envoy_arguments
from penstock_gateway.config import GatewaySettings
from tests.support.cluster.envoy.binary import envoy_binary
from tests.support.environment import inherited
from tests.support.gateway import api_server
from tests.support.gateway.api_server import ApiServer

Process = asyncio.subprocess.Process
WAIT_SECONDS = 90.0
"""For a process to start on a busy machine."""
POLL_SECONDS = 0.02


@dataclass(slots=True)
class Stack:
    """The processes; `pool_port` is the listener of the pool `demo`."""

    folder: Path
    api: ApiServer
    network: str
    settings: dict[str, str] = field(default_factory=dict)
    controller: Process | None = None
    envoy: Process | None = None
    pods: dict[str, Process] = field(default_factory=dict)
    session: aiohttp.ClientSession | None = None

    @property
    def host(self) -> str:
        """Address of the gateway."""
        return f"{self.network}.1"

    def url(self, path: str = "", port: int = 10001) -> str:
        """Return a URL of a pool's listener."""
        return f"http://{self.host}:{port}{path}"

    async def start_controller(self) -> None:
        """Start the controller."""
        program = ("-m", "penstock_gateway")
        self.controller = await self.start("controller", sys.executable, *program)

    async def start_envoy(self) -> None:
        """Write the bootstrap and start Envoy."""
        words = (sys.executable, "-m", "penstock_gateway", "bootstrap")
        writer = await self.start("bootstrap", *words)
        assert await writer.wait() == 0, self.log("bootstrap")
        settings = GatewaySettings.from_env(self._environ())
        arguments = envoy_arguments(settings.socket_folder, settings.drain_seconds)
        more = ("--concurrency", "1", "--log-level", "warning")
        self.envoy = await self.start("envoy", str(envoy_binary()), *arguments, *more)

    async def start_pod(
        self, name: str, *, pool: str = "demo", slowness: float = 1.0, certificate: str = ""
    ) -> None:
        """Start a pod, and publish it as Ready; with a certificate's folder it serves TLS."""
        self.pods[name] = await self.start(
            name, sys.executable, "-m", "tests.support.gateway.pod",
            self.address(name), str(names.CLIENT_PORT), name, str(slowness), certificate,
        )  # fmt: skip
        await self.until(lambda: "listening" in self.log(name))
        scheme = "https" if certificate else "http"
        await self.api.put("pods", api_server.pod(name, pool, self.address(name), scheme=scheme))

    def address(self, pod: str) -> str:
        """Return the address of a pod, whose name ends in a number."""
        return f"{self.network}.{10 + int(pod.rpartition('-')[2])}"

    async def status(self) -> dict[str, Any]:
        """Return the controller's status."""
        async with self.client.get(f"http://{self.host}:8091/status") as answer:
            return dict(await answer.json())

    @property
    def client(self) -> aiohttp.ClientSession:
        """A session for requests of the test itself."""
        assert self.session is not None
        return self.session

    async def pod_reply(self, name: str, path: str) -> Any:
        """Return a pod's answer to a GET that does not pass the gateway."""
        url = f"http://{self.address(name)}:{names.CLIENT_PORT}{path}"
        async with self.client.get(url) as answer:
            return await answer.json()

    async def metrics(self, path: str = "/metrics") -> str:
        """Return the controller's metrics, or Envoy's at `/metrics/envoy`."""
        async with self.client.get(f"http://{self.host}:8091{path}") as answer:
            return await answer.text()

    async def envoy_metric(self, name: str, pool: str) -> float:
        """Return one of Envoy's metrics of a pool; 0 if Envoy never used it."""
        for family in text_string_to_metric_families(await self.metrics("/metrics/envoy")):
            for sample in family.samples:
                if sample.name in (name, f"{name}_total") and sample.labels.get("pool") == pool:
                    return sample.value
        return 0.0

    async def until_status(
        self, holds: Callable[[dict[str, Any]], bool], poll_seconds: float = POLL_SECONDS
    ) -> dict[str, Any]:
        """Wait until the controller's status holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            try:
                status = await self.status()
                if holds(status):
                    return status
            except (aiohttp.ClientError, KeyError):
                pass
            await asyncio.sleep(poll_seconds)
        raise AssertionError(f"{status}\n{self.log('controller')}\n{self.log('envoy')}")

    async def until_ready(self) -> None:
        """Wait until Envoy's own readiness listener answers 200."""
        await self.until_status(lambda status: bool(status["ready"]))

    async def until_endpoints(self, count: int, pool: str = "demo") -> None:
        """Wait until Envoy acknowledged this number of endpoints."""
        await self.until_status(
            lambda status: (
                len(status["pools"][pool]["endpoints"]) == count
                and set(status["pools"][pool]["resources"].values()) == {"Accepted"}
            )
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.log("controller")
            await asyncio.sleep(POLL_SECONDS)

    async def until_more(self, count: Callable[[], int], more: int) -> None:
        """Wait until a count grew."""
        goal = count() + more
        await self.until(lambda: count() >= goal)

    async def is_ready(self) -> bool:
        """Return whether Envoy's readiness listener answers 200, as the kubelet sees it."""
        try:
            async with self.client.get(f"http://{self.host}:8090/readyz") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    def log(self, name: str) -> str:
        """Return a process's output so far."""
        file = self.folder / f"{name}.log"
        return file.read_text() if file.exists() else ""

    def _environ(self) -> Mapping[str, str]:
        return {
            "PENSTOCK_NAMESPACE": "test",
            "PENSTOCK_GATEWAY": "test",
            "PENSTOCK_POD_NAME": "gateway-0",
            "PENSTOCK_HOST": self.host,
            "PENSTOCK_SOCKET_FOLDER": str(self.folder),
            "PENSTOCK_API_SERVER": self.api.url,
            "PENSTOCK_TOKEN_FILE": str(self.folder / "token"),
            "PENSTOCK_TLS_FOLDER": str(self.folder / "tls"),
            "PENSTOCK_ACCEPT_SECONDS": "0.2",
            **self.settings,
        }

    def environ(self) -> dict[str, str]:
        """Return the environment of the gateway's processes."""
        return {**inherited(), **self._environ()}

    async def start(self, name: str, *words: str) -> Process:
        """Start a process with the gateway's environment, and its output in a log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *words, stdout=log, stderr=log, env=self.environ()
            )

    async def stop(self) -> None:
        """Kill what still runs."""
        for process in (self.controller, self.envoy, *self.pods.values()):
            if process is not None and process.returncode is None:
                process.kill()
                await process.wait()


def own_network() -> str:
    """Return the first three numbers of addresses that no other test has; pytest-randomly seeds `random` alike in every test."""
    return f"127.{16 + secrets.randbelow(230)}.{secrets.randbelow(256)}"


async def kill(process: Process | None) -> None:
    """SIGKILL, and wait."""
    assert process is not None
    process.send_signal(signal.SIGKILL)
    await process.wait()


@asynccontextmanager
async def stack(
    settings: Mapping[str, str] | None = None, api: ApiServer | None = None
) -> AsyncIterator[Stack]:
    """Run an API server stand-in, or use that of another gateway; `settings` are variables of the environment."""
    # short, since a socket's path has at most 108 bytes
    folder = Path(tempfile.mkdtemp(prefix="penstock-gateway-"))
    network = own_network()
    serving = nullcontext(api) if api else api_server.serving()
    async with serving as server, aiohttp.ClientSession() as session:
        running = Stack(folder, server, network, dict(settings or {}), session=session)
        try:
            yield running
        finally:
            await running.stop()
            shutil.rmtree(folder)
