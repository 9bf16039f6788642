"""Connections that send nothing: the bound on them, and their end."""

import asyncio
import json
import resource
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from penstock_batches.http import connections
from penstock_batches.http.server import listening
from tests.support.batches.process import BatchesProcess
from tests.support.batches.stage import free_port

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@asynccontextmanager
async def bounded(most: int) -> AsyncIterator[int]:
    """Serve an application on at most so many connections; yield its port."""

    async def ok(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application()
    app.router.add_get("/", ok)
    async with listening(app, "127.0.0.1", 0, most) as port:
        yield port


@asynccontextmanager
async def connected(port: int, number: int) -> AsyncIterator[list[Connection]]:
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(number):
            connection = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(connection[1].transport.abort)
            opened.append(connection)
        yield opened


async def is_closed(connection: Connection) -> bool:
    try:
        async with asyncio.timeout(2):
            return await connection[0].read() == b""
    except ConnectionResetError:
        return True


async def status(connection: Connection) -> bytes:
    connection[1].write(REQUEST)
    return (await connection[0].readline()).split()[1]


async def test_a_connection_beyond_the_bound_replaces_the_oldest_without_a_request() -> None:
    async with bounded(2) as port, connected(port, 3) as (first, second, third):
        assert await is_closed(first)
        assert await status(second) == b"200"
        assert await status(third) == b"200"


async def test_connections_with_requests_stay_and_a_newcomer_is_closed() -> None:
    async with bounded(2) as port, connected(port, 2) as older:
        for each in older:
            assert await status(each) == b"200"
        async with connected(port, 1) as (newcomer,):
            assert await is_closed(newcomer)
        older[0][1].transport.abort()
        await asyncio.sleep(0.1)
        async with connected(port, 1) as (newcomer,):
            assert await status(newcomer) == b"200"


async def test_a_connection_without_a_request_is_closed_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 0.3)
    async with bounded(9) as port, connected(port, 2) as (silent, busy):
        silent[1].write(REQUEST[:10])
        assert await status(busy) == b"200"
        assert await is_closed(silent)
        await asyncio.sleep(0.2)
        assert not busy[0].at_eof()


async def test_idle_connections_leave_descriptors_to_probes(tmp_path: Path) -> None:
    port = free_port()
    process = BatchesProcess(tmp_path, port, PENSTOCK_POOLS="demo=http://127.0.0.1:9")
    process.start()
    assert process.process is not None
    resource.prlimit(process.process.pid, resource.RLIMIT_NOFILE, (256, 256))
    try:
        await asyncio.to_thread(process.listening)
        ports = [json.loads(line).get("status_port") for line in process.lines()]
        url = f"http://127.0.0.1:{next(filter(None, ports))}/healthz"
        async with aiohttp.ClientSession() as session, connected(port, 300):
            for _ in range(3):
                began = time.monotonic()
                async with session.get(url) as reply:
                    assert await reply.text() == "ok"
                assert time.monotonic() - began < 1
    finally:
        process.kill()
