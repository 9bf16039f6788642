"""With 256 file descriptors and many silent clients, a pod answers probes, serves new clients and does not spin."""

import asyncio
import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.integration.runtime.test_placements import QUICK, infer

DESCRIPTORS = 256
SILENT = 400


def starved(launch: Any, **more: str) -> Any:
    """Return a ready pod that may open 256 files, with the engine in its own process."""
    pod = launch(QUICK, PENSTOCK_PLACEMENT="Process", **more)
    resource.prlimit(pod.process.pid, resource.RLIMIT_NOFILE, (64, DESCRIPTORS))
    pod.ready()
    return pod


def open_files(pod: Any) -> int:
    return sum(1 for _ in Path(f"/proc/{pod.process.pid}/fd").iterdir())


def silent_client(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])), timeout=5)


async def probed(pod: Any) -> None:
    """Send the cluster's probes and scrape on new connections, and expect 200."""
    for path in ("/healthz", "/readyz", "/metrics"):
        status, _ = await asyncio.to_thread(pod.get, path)
        assert status == 200


@pytest.mark.parametrize("port", ["client", "cluster"])
async def test_silent_clients_block_neither_probes_nor_new_clients(launch: Any, port: str) -> None:
    pod = await asyncio.to_thread(starved, launch)
    assert open_files(pod) < 96, "more are open before the first client than are reserved"
    with ExitStack() as silent:
        for _ in range(SILENT):
            silent.enter_context(silent_client(getattr(pod, port)))
        for _ in range(5):
            await probed(pod)
            async with aiohttp.ClientSession() as session:
                assert (await infer(pod, session))[0] == 200
        assert open_files(pod) < DESCRIPTORS - 16
        assert "cannot accept connections" not in pod.log.read_text()


async def test_a_pod_without_a_free_descriptor_does_not_spin_and_recovers(launch: Any) -> None:
    pod = await asyncio.to_thread(starved, launch)
    pid = pod.process.pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (open_files(pod), DESCRIPTORS))
    with ExitStack() as clients:
        for _ in range(20):
            clients.enter_context(silent_client(pod.client))
        await asyncio.sleep(0.5)
        before = cpu_seconds(pid)
        await asyncio.sleep(2)
        assert cpu_seconds(pid) - before < 0.5
        retrying = "cannot accept connections, retrying in 0.1 s: Too many open files"
        assert retrying in pod.log.read_text()
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session:
            assert (await infer(pod, session))[0] == 200
        await probed(pod)


async def test_the_soft_limit_is_raised_to_the_hard_one(launch: Any) -> None:
    pod = await asyncio.to_thread(starved, launch)
    limits = resource.prlimit(pod.process.pid, resource.RLIMIT_NOFILE)
    assert limits == (DESCRIPTORS, DESCRIPTORS)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
