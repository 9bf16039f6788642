"""A bound on open connections: the longest idle one gives way, none with a request in flight, and the rest are told 503."""

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
from tests.unit.runtime.http.conftest import LIMITS
from tests.unit.runtime.http.test_lanes import connected, one_answer
from tests.unit.runtime.http.wire_cases import GOOD, get

MOST = 4
NAME = "chat.team-a.svc"


@pytest.fixture(params=[True, False], ids=["fast lane", "aiohttp's lane"])
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
    found = []
    for _ in range(count):
        found.append(await connected(pod))
        await asyncio.sleep(0.01)
    return found


async def test_a_newcomer_takes_the_place_of_the_longest_idle_client(start: Any) -> None:
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
    await asyncio.sleep(0.4)  # longer than the fast lane collects parts
    newcomers = await open_in_turn(pod, MOST)
    for reader, writer in newcomers:
        writer.write(GOOD)
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
        writer.close()
    for reader, writer in clients:
        assert await is_closed(reader)
        writer.close()


async def test_while_every_connection_has_a_request_a_newcomer_is_told_503(
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
    assert pod.pod.counters.refused == {"ConnectionsFull": 3}
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


async def test_clients_that_never_begin_their_handshake_hold_nobody_out(
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
    for one, _ in silent[: 2 * MOST]:
        assert await is_closed(one)
    for _, one in silent:
        one.close()


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


@given(st.lists(st.tuples(st.sampled_from(["open", "ask", "answer", "close"]), st.integers(0, 99))))
def test_whatever_clients_do_none_in_flight_is_closed_and_the_bound_holds(
    acts: list[tuple[str, int]],
) -> None:
    limit: Any = ConnectionLimit(lambda: 3, lambda _: b"")
    clients: list[Client] = []
    for act, which in acts:
        clients = [one for one in clients if not one.dropped]
        if act == "open":
            clients.append(Client())
            limit.opened(clients[-1])
        elif clients:
            one = clients[which % len(clients)]
            if act == "close":
                clients.remove(one)
                limit.closed(one)
            elif not one.surplus:
                one.in_flight = act == "ask"
                (limit.busy if one.in_flight else limit.idle)(one)
        assert not [one for one in clients if one.dropped and one.in_flight]
        kept = [one for one in clients if not one.dropped]
        assert len(limit) == len(kept) <= 3 + MAX_SURPLUS
        assert sum(not one.surplus for one in kept) <= 3
