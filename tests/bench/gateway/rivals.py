"""Other ways to the same pods: HAProxy, and the routers of other projects in an environment of their own."""

import asyncio
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiohttp

from penstock_api import names
from tests.bench.gateway.emulated_pods import PATH
from tests.bench.http.environments import NotInstalledError, install, python_of
from tests.support.gateway.stack import Process, Stack

START_SECONDS: Final = 60.0
HAPROXY: Final = """
global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 1h
  timeout server 1h
  option http-no-delay
  option redispatch
  retries 3
  retry-on conn-failure empty-response
frontend pool
  bind {host}:{port}
  default_backend pods
backend pods
  balance leastconn
  http-reuse always
{servers}
"""


@dataclass(frozen=True, slots=True)
class Rival:
    """A router of another project."""

    name: str
    port: int
    package: str
    """What pip installs; empty: a program of the PATH."""
    command: Callable[["Rival", Stack, Sequence[str]], list[str]]
    """Its command for the addresses of pods."""
    policy: Sequence[str] = ()

    def is_there(self) -> bool:
        """Return whether the program is there, after an attempt to install it."""
        if not self.package:
            return shutil.which("haproxy") is not None
        try:
            install(self.package)
        except NotInstalledError as error:
            print(error)
            return False
        return True

    async def start(self, gateway: Stack, addresses: Sequence[str]) -> Process:
        """Start it next to a gateway, and return once it answers."""
        process = await gateway.start(self.name, *self.command(self, gateway, addresses))
        gateway.pods[self.name] = process  # ends with the stack
        deadline = time.monotonic() + START_SECONDS
        while not await self._answers(gateway):
            assert time.monotonic() < deadline, gateway.log(self.name)
            await asyncio.sleep(0.2)
        return process

    async def _answers(self, gateway: Stack) -> bool:
        url = f"http://{gateway.host}:{self.port}{PATH}"
        body = {"model": "demo", "prompt": "a"}
        try:
            async with gateway.client.post(url, json=body) as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False


def _haproxy(rival: Rival, gateway: Stack, addresses: Sequence[str]) -> list[str]:
    """Return the command with one thread, as Envoy's one worker, and the least connections in use."""
    servers = "\n".join(
        f"  server pod-{number} {address}:{names.CLIENT_PORT}"
        for number, address in enumerate(addresses)
    )
    file = Path(gateway.folder) / "haproxy.cfg"
    file.write_text(HAPROXY.format(host=gateway.host, port=rival.port, servers=servers))
    return ["haproxy", "-db", "-f", str(file)]


def _router(rival: Rival, gateway: Stack, addresses: Sequence[str]) -> list[str]:
    """Return the command with one of the policies that read how many requests each pod has."""
    program = python_of(rival.package).with_name(rival.package)
    words = [str(program), *(("launch",) if rival.package == "smg" else ())]
    urls = [f"http://{address}:{names.CLIENT_PORT}" for address in addresses]
    words += ["--host", gateway.host, "--port", str(rival.port), "--worker-urls", *urls]
    metrics = ["--prometheus-host", gateway.host, "--prometheus-port", str(rival.port + 100)]
    return [
        *words,
        "--log-level",
        "warn" if rival.package == "smg" else "warning",
        *metrics,
        *rival.policy,
    ]


RIVALS: Final = (
    Rival("HAProxy", 10002, "", _haproxy),
    Rival("vllm-router", 10003, "vllm-router", _router, ("--policy", "power_of_two")),
    Rival(
        "smg",
        10004,
        "smg",
        _router,
        (
            *("--policy", "power_of_two", "--power-of-two-load-metric", "least_requests"),
            "--disable-load-monitoring",
        ),
    ),
)
