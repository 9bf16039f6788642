"""`vllm-router` in front of the pods, for the record: its workers follow the pods at once, by its HTTP API."""

import asyncio
from asyncio.subprocess import DEVNULL
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import aiohttp

from penstock_api import names
from tests.bench.http.environments import install, python_of
from tests.support.gateway.stack import Process

PACKAGE: Final = "vllm-router"
START_SECONDS: Final = 60.0


@dataclass(slots=True)
class VllmRouter:
    """One process, without workers at the start, which power of two choices refuses: it takes them in turn."""

    host: str
    port: int
    addresses: list[str]
    """Of every pod that may come, by number."""
    _process: Process | None = None

    async def start(self) -> None:
        """Start it, and return once it accepts commands.

        Raises:
            NotInstalledError: it does not install here.
        """
        await asyncio.to_thread(install, PACKAGE)
        address = ("--host", self.host, "--port", str(self.port))
        metrics = ("--prometheus-host", self.host, "--prometheus-port", str(self.port + 100))
        options = ("--policy", "round_robin", "--worker-startup-check-interval", "1")
        program = python_of(PACKAGE).with_name(PACKAGE)
        self._process = await asyncio.create_subprocess_exec(
            program, *address, *metrics, *options, stdout=DEVNULL, stderr=DEVNULL
        )
        async with asyncio.timeout(START_SECONDS):
            while not await self._listens():
                assert self._process.returncode is None
                await asyncio.sleep(0.1)

    async def set(self, number: int, state: str) -> None:
        """Add the worker of a pod that is `ready`, and remove that of any other."""
        command = "add_worker" if state == "ready" else "remove_worker"
        worker = f"http://{self.addresses[number]}:{names.CLIENT_PORT}"
        async with (
            aiohttp.ClientSession() as session,
            session.post(f"{self._url}/{command}", params={"url": worker}) as answer,
        ):
            assert answer.status == HTTPStatus.OK, await answer.text()

    async def stop(self) -> None:
        """End it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    @property
    def _url(self) -> str:
        return f"http://{self.host}:{self.port}"

    async def _listens(self) -> bool:
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{self._url}/list_workers"):
                return True
        except aiohttp.ClientConnectionError:
            return False
