"""Clients that come together are accepted together, and nobody listens once the port is closed."""

import asyncio
import socket

import pytest
import uvloop
from aiohttp import web

from penstock_runtime.server import ACCEPTS_A_ROUND, listen

CLIENTS = 40


async def rounds_until_accepted(accepts_a_round: int) -> int:
    """Return how many rounds of the loop it takes until all who came at once are connected."""
    runner = web.AppRunner(web.Application())
    port = await listen(runner, "127.0.0.1", 0, accepts_a_round=accepts_a_round)
    assert runner.server is not None
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(CLIENTS)]
    rounds = 0
    while len(runner.server.connections) < CLIENTS and rounds < 10 * CLIENTS:
        await asyncio.sleep(0)
        rounds += 1
    for one in clients:
        one.close()
    await runner.cleanup()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    return rounds


def test_clients_that_come_together_are_accepted_in_a_few_rounds() -> None:
    assert uvloop.run(rounds_until_accepted(1)) >= CLIENTS
    assert uvloop.run(rounds_until_accepted(ACCEPTS_A_ROUND)) <= CLIENTS / 2
