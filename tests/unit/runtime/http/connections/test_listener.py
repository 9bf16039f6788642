"""Accepting: clients that connect together are accepted together, and a closed port leaves no descriptor."""

import asyncio
import socket
import ssl
from functools import partial
from pathlib import Path

import pytest
import uvloop
from aiohttp import web

from penstock_api.certificates import ServerCertificate
from penstock_runtime.http.aiohttp_seam import ClientsRunner
from penstock_runtime.http.connection_limit import BoundedConnection, ConnectionLimit
from penstock_runtime.http.listener import ACCEPTS_PER_ROUND, Listener
from tests.unit.operator.net.certificates import Authority

CLIENTS = 40
MOST = 4
NAME = "chat.team-a.svc"


async def rounds_until_accepted(accepts_a_round: int) -> int:
    """Return the number of rounds of the event loop until clients that connect together are accepted."""
    limit = ConnectionLimit(lambda: CLIENTS, lambda _: b"")
    runner = ClientsRunner(web.Application(), partial(BoundedConnection, limit=limit))
    await runner.setup()
    listener = Listener(runner, ("127.0.0.1", 0), limit, accepts_per_round=accepts_a_round)
    await listener.start()
    port = listener.port
    assert runner.server is not None
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
    rounds = 0
    while len(runner.server.connections) < CLIENTS and rounds < 10 * CLIENTS:
        await asyncio.sleep(0)
        rounds += 1
    for client in clients:
        client.close()
    await runner.cleanup()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    return rounds


def test_clients_that_come_together_are_accepted_in_a_few_rounds() -> None:
    assert uvloop.run(rounds_until_accepted(1)) >= CLIENTS
    assert uvloop.run(rounds_until_accepted(ACCEPTS_PER_ROUND)) <= CLIENTS / 2


async def handshakes(authority: Authority, folder: Path) -> None:
    """Connect clients of which all but the last never begin their handshake; MOST places are there for them."""
    limit = ConnectionLimit(lambda: MOST, lambda _: b"")
    runner = ClientsRunner(web.Application(), partial(BoundedConnection, limit=limit))
    await runner.setup()
    listener = Listener(runner, ("127.0.0.1", 0), limit, ServerCertificate(folder).context)
    await listener.start()
    before = open_files()
    silent = [socket.create_connection(("127.0.0.1", listener.port)) for _ in range(CLIENTS)]
    trust = ssl.create_default_context(cadata=authority.pem())
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", listener.port, ssl=trust, server_hostname=NAME
        )
        writer.write(b"GET /none HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 404")
        assert len(limit) == MOST
        assert open_files() <= before + CLIENTS + MOST + 2, "a client that gave way is closed"
        writer.close()
        for client in silent:
            client.close()
        while open_files() > before + 1:  # noqa: ASYNC110 - the one that libuv keeps for a full table
            await asyncio.sleep(0.01)
    assert len(limit) == 0
    await runner.cleanup()


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_silent_clients_of_a_tls_port_are_closed_and_leave_no_descriptor(tmp_path: Path) -> None:
    authority = Authority.make()
    authority.issue(tmp_path, NAME)
    uvloop.run(handshakes(authority, tmp_path))
