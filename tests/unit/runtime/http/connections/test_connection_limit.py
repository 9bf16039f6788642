"""The bound on open connections: the longest idle one is closed, none with a request in flight, and surplus ones get 503."""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.certificates import ServerCertificate
from penstock_runtime.http import descriptors
from penstock_runtime.http.connection_limit import MAX_SURPLUS, ConnectionLimit
from tests.unit.operator.net.certificates import Authority
from tests.unit.runtime.conftest import LIMITS
from tests.unit.runtime.http.fast_path.test_fast_path import connected, one_answer
from tests.unit.runtime.http.wire_cases import GOOD, get

MOST = 4
NAME = "chat.team-a.svc"


@pytest.fixture(params=[True, False], ids=["fast path", "aiohttp"])
def fast_path(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pod keep MOST client connections."""
    monkeypatch.setattr(descriptors, "client_connections", lambda *_: MOST)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    async with asyncio.timeout(5):
        try:
            return await reader.read(1) == b""
        except ConnectionResetError:
            return True


async def open_in_turn(pod: Any, count: int) -> list[Any]:
    """Connect one client after the other, in an order that the pod sees."""
    answers = []
    for _ in range(count):
        answers.append(await connected(pod))
        await asyncio.sleep(0.01)
    return answers


async def test_a_new_connection_replaces_the_longest_idle_one(start: Any) -> None:
    pod = await start()
    first, second, *others = await open_in_turn(pod, MOST)
    first[1].write(GOOD)
    assert (await one_answer(first[0])).startswith(b"HTTP/1.1 200")
    newcomer = (await open_in_turn(pod, 1))[0]
    assert await is_closed(second[0]), "the first has spoken since"
    for reader, writer in (first, *others, newcomer):
        for sent in (GOOD, get("/v2")):
            writer.write(sent)
            assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    second[1].close()


async def test_a_part_of_a_head_is_no_request_in_flight(start: Any) -> None:
    pod = await start()
    clients = await open_in_turn(pod, MOST)
    for _, writer in clients:
        writer.write(GOOD[:20])
    await asyncio.sleep(0.4)  # longer than the fast path collects parts
    newcomers = await open_in_turn(pod, MOST)
    for reader, writer in newcomers:
        writer.write(GOOD)
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    for reader, writer in clients:
        assert await is_closed(reader)
        writer.close()


async def test_a_new_connection_gets_503_while_every_other_has_a_request(
    start: Any, until: Any
) -> None:
    pod = await start(LIMITS.model_copy(update={"max_queue_depth": 100}))
    pod.model.gate.clear()
    busy = await open_in_turn(pod, MOST)
    for _, writer in busy:
        writer.write(GOOD)
    await until(lambda: pod.pod.counters.received == MOST)
    newcomers = await open_in_turn(pod, 3)
    for reader, writer in newcomers:
        writer.write(GOOD)
        answer = await one_answer(reader)
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"Retry-After: 1\r\n" in answer
        assert b"Connection: close\r\n" in answer
        assert f"all {MOST} connections".encode() in answer
        assert await is_closed(reader)
        writer.close()
    pod.model.gate.set()
    for reader, _ in busy:
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200"), "none in flight was cut off"
    late = (await open_in_turn(pod, 1))[0]
    late[1].write(GOOD)
    assert (await one_answer(late[0])).startswith(b"HTTP/1.1 200")
    for _, writer in (*busy, late):
        writer.close()
    assert pod.pod.counters.rejected == {"ConnectionsFull": 3}
    assert pod.pod.counters.settled() == pod.pod.counters.received == MOST + 4


async def test_a_silent_surplus_leaves_no_connection_behind(start: Any, until: Any) -> None:
    pod = await start(LIMITS.model_copy(update={"max_queue_depth": 100}))
    pod.model.gate.clear()
    busy = await open_in_turn(pod, MOST)
    for _, writer in busy:
        writer.write(GOOD)
    await until(lambda: pod.pod.counters.received == MOST)
    silent = [await connected(pod) for _ in range(3 * MAX_SURPLUS)]
    await until(lambda: pod.client.open_connections() <= MOST + MAX_SURPLUS)
    pod.model.gate.set()
    for reader, writer in busy:
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    for _, writer in silent:
        writer.close()
    await until(lambda: pod.client.open_connections() == 0)


async def test_clients_that_never_begin_their_handshake_do_not_block_others(
    start: Any, tmp_path: Path, until: Any
) -> None:
    authority = Authority.make()
    authority.issue(tmp_path / "tls", NAME)
    pod = await start(tls=ServerCertificate(tmp_path / "tls").context)
    silent = await open_in_turn(pod, 3 * MOST)
    trust = ssl.create_default_context(cadata=authority.pem())
    port = int(pod.url.rsplit(":", 1)[1])
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=trust, server_hostname=NAME
    )
    writer.write(GOOD)
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    writer.close()
    for client, _ in silent[: 2 * MOST]:
        assert await is_closed(client)
    for _, client in silent:
        client.close()


@pytest.mark.parametrize("sent", [b"", GOOD[:20]], ids=["nothing", "part of a head"])
async def test_a_client_that_sends_no_whole_head_is_closed_in_time(start: Any, sent: bytes) -> None:
    pod = await start(keep_alive_seconds=0.5)
    reader, writer = await connected(pod)
    writer.write(sent)
    assert await is_closed(reader)
    writer.close()
    reader, writer = await connected(pod)
    writer.write(GOOD)
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    writer.write(sent)
    assert await is_closed(reader), "nor is one that was served before"
    writer.close()


@given(limit=st.integers(1, 2**20), depth=st.integers(1, 10**6))
def test_connections_leave_descriptors_for_the_cluster_port_and_for_files(
    limit: int, depth: int
) -> None:
    most = _client_connections(limit, depth)
    kept = descriptors.CLUSTER_CONNECTIONS + descriptors.RESERVED_DESCRIPTORS
    assert most + kept <= limit or most == descriptors.MIN_CLIENT_CONNECTIONS
    assert most >= min(2 * depth, descriptors.MIN_CLIENT_CONNECTIONS)


_client_connections = descriptors.client_connections


class Client:
    """A connection as the limit sees it."""

    surplus = False

    def __init__(self) -> None:
        self.in_flight = False
        self.dropped = False

    def is_idle(self) -> bool:
        return not self.in_flight

    def drop(self) -> None:
        self.dropped = True


@given(
    st.lists(st.tuples(st.sampled_from(["open", "request", "answer", "close"]), st.integers(0, 99)))
)
def test_whatever_clients_do_none_in_flight_is_closed_and_the_bound_holds(
    acts: list[tuple[str, int]],
) -> None:
    limit: Any = ConnectionLimit(lambda: 3, lambda _: b"")
    clients: list[Client] = []
    for act, which in acts:
        clients = [client for client in clients if not client.dropped]
        if act == "open":
            clients.append(Client())
            limit.opened(clients[-1])
        elif clients:
            client = clients[which % len(clients)]
            if act == "close":
                clients.remove(client)
                limit.closed(client)
            elif not client.surplus:
                client.in_flight = act == "request"
                (limit.busy if client.in_flight else limit.idle)(client)
        assert not [client for client in clients if client.dropped and client.in_flight]
        kept = [client for client in clients if not client.dropped]
        assert len(limit) == len(kept) <= 3 + MAX_SURPLUS
        assert sum(not client.surplus for client in kept) <= 3
