"""The small form of `make bench-losses`: every kind of event once, in random order, and no request lost.

What counts a request must be able to fail: the last tests break each promise.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.bench.losses.clients import Clients, Tally
from tests.bench.losses.events import KINDS, OF_GENERATING_PODS
from tests.bench.losses.pod import answer
from tests.bench.losses.pod_objects import PodObjects
from tests.bench.losses.run import Scale, run
from tests.bench.losses.world import Front
from tests.support.gateway import api_server


async def test_every_request_has_one_right_answer_whatever_happens() -> None:
    kinds = len(KINDS[Front.GATEWAY])
    outcome = await run(Scale(requests=2000, events=kinds, seed=1, clients=16, pods=3, each=True))
    assert outcome.tally.failures == []
    assert outcome.tally.right >= 2000
    assert outcome.events.total() == kinds
    assert set(outcome.events.values()) == {1}


@pytest.mark.long
async def test_streams_equal_those_of_an_undisturbed_run_whatever_is_planned() -> None:
    kinds = {*KINDS[Front.GATEWAY], *OF_GENERATING_PODS}
    scale = Scale(2000, len(kinds), seed=2, clients=8, pods=3, each=True, streams=8)
    outcome = await run(scale)
    assert outcome.failures == []
    assert outcome.streams.equal >= 8
    assert outcome.taken_over > 0
    assert set(outcome.events.values()) == {1}


async def test_a_service_loses_the_requests_of_a_killed_pod() -> None:
    kinds = len(KINDS[Front.SERVICE])
    outcome = await run(
        Scale(2000, kinds, seed=1, clients=16, pods=3, each=True, front=Front.SERVICE)
    )
    assert outcome.tally.lost.total > 0
    assert outcome.tally.wrong.total == outcome.tally.twice.total == 0


async def test_no_pod_is_deleted_while_the_api_server_is_away() -> None:
    async with api_server.serving() as api:
        objects = PodObjects(api)
        await objects.put(api_server.pod("a-1", "a", "10.0.0.1"))
        async with objects.away:
            deleting = asyncio.create_task(objects.delete("a-1"))
            await asyncio.sleep(0.05)
            assert list(api.objects["pods"]) == ["a-1"]
        await deleting
        assert not api.objects["pods"]


@asynccontextmanager
async def server(reply: bytes) -> AsyncIterator[tuple[str, int]]:
    """Serve every request with these bytes, and close the connection if there are none."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(2**20)
            if not data or not reply:
                break
            writer.write(reply)
        writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1")
    host, port = running.sockets[0].getsockname()
    async with running:
        yield host, port


async def sent_to(reply: bytes) -> Tally:
    """Send request 1 to such a server."""
    async with server(reply) as (host, port):
        clients = Clients(lambda: (host, port), 2, lambda: False)
        clients._numbers = 1
        await clients.run(1)
    return clients.tally


def ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


RIGHT = ok(b"%d" % answer(1))


async def test_a_right_answer_is_right() -> None:
    tally = await sent_to(RIGHT)
    assert (tally.right, tally.failures) == (1, [])


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"", "lost"),
        (b"HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno", "lost"),
        (RIGHT[:-1], "lost"),
        (ok(b"%d" % answer(2)), "wrong"),
        (RIGHT + RIGHT, "twice"),
    ],
    ids=["reset", "503", "cut off", "another's answer", "two answers"],
)
async def test_a_broken_promise_is_counted(
    reply: bytes, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bench.losses.clients.REQUEST_SECONDS", 0.5)
    tally = await sent_to(reply)
    assert getattr(tally, kind).total == 1
    assert len(tally.failures) == 1
