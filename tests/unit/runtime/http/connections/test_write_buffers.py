"""Unread answers: counted as memory, limited to a share of it, and dropped after a while."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from penstock_api.certificates import ServerCertificate
from penstock_runtime.config import HttpConfig
from penstock_runtime.drain import IDLE_SECONDS, LOOK_SECONDS, drain
from penstock_runtime.engine.model import TensorSpec
from penstock_runtime.http import cluster_port, descriptors
from penstock_runtime.http.connection_limit import ConnectionLimit
from penstock_runtime.http.write_buffers import WatchedConnection, WriteBufferLimits
from penstock_runtime.request import RequestOutcome, Tensor
from tests.unit.operator.net.certificates import Authority
from tests.unit.runtime.conftest import Halves
from tests.unit.runtime.http.wire_cases import binary

MIB = 2**20


class UnreadTransport(asyncio.Transport):
    """A transport with `size` bytes that its client does not read."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.read = 0
        self.aborted = self.closed = False

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        return default

    def get_write_buffer_size(self) -> int:
        return self.size

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class Book:
    """Records the bytes and timers of a `WriteBufferLimits`."""

    def __init__(self, max_bytes: int) -> None:
        self.bytes = 0
        self.later: list[tuple[Any, ...]] = []
        self.unread = WriteBufferLimits(self.hold, max_bytes, 60.0, self.call_later, self.progress)

    def hold(self, more_bytes: int) -> None:
        self.bytes += more_bytes

    def progress(self, transport: asyncio.Transport) -> int:
        assert isinstance(transport, UnreadTransport)
        return transport.read

    def call_later(
        self, seconds: float, call: Callable[..., None], *what: object
    ) -> asyncio.TimerHandle:
        self.later.append((seconds, call, *what))
        return asyncio.get_running_loop().call_later(1000.0, lambda: None)

    def note(self, name: str, size: int) -> UnreadTransport:
        transport = UnreadTransport(size)
        self.unread.add(name, transport)
        return transport


async def test_unread_bytes_count_until_they_are_removed() -> None:
    book = Book(100)
    book.note("a", 60)
    book.note("a", 70)
    book.note("b", 30)
    book.note("nothing", 0)
    assert book.bytes == 90
    book.unread.remove("a")
    book.unread.remove("a")
    assert book.bytes == 30
    book.unread.remove("b")


async def test_beyond_the_share_the_longest_buffered_connection_is_aborted() -> None:
    book = Book(100)
    lying = [book.note(name, 40) for name in "abcd"]
    assert [transport.aborted for transport in lying] == [True, True, False, False]
    assert book.bytes == 80
    large = book.note("large", 500)
    assert [transport.aborted for transport in (*lying, large)] == [True] * 4 + [False]
    assert book.bytes == 500
    book.unread.remove("large")


async def test_a_client_that_does_not_read_in_time_is_aborted() -> None:
    book = Book(100)
    transport = book.note("a", 60)
    ((seconds, call, *what),) = book.later
    assert seconds == 60.0
    call(*what)
    assert (transport.aborted, book.bytes) == (True, 0)


async def test_a_client_that_reads_slowly_is_aborted_only_once_it_stops() -> None:
    book = Book(100)
    transport = book.note("a", 60)
    for left in (60, 40):  # the kernel takes more of the buffer only after large parts
        transport.size, transport.read = left, transport.read + 1
        _, call, *what = book.later[-1]
        call(*what)
        assert (transport.aborted, book.bytes) == (False, left)
    _, call, *what = book.later[-1]
    call(*what)
    assert (transport.aborted, book.bytes, len(book.later)) == (True, 0, 3)


async def test_a_long_answer_over_tls_counts_until_its_client_has_read_it() -> None:
    book = Book(100)
    transport = UnreadTransport(0)
    book.unread.add("a", transport, 60)
    book.unread.resume("a")
    assert book.bytes == 60
    for read, left in ((20, 40), (60, 0)):
        transport.read = read
        seconds, call, *what = book.later[-1]
        call(*what)
        assert (seconds, book.bytes) == (0.25, left)
    assert (transport.aborted, book.unread.unread) == (False, False)


async def test_long_answers_over_tls_to_one_client_count_together() -> None:
    book = Book(100)
    transport = UnreadTransport(0)
    book.unread.add("a", transport, 60)
    transport.read = 20
    book.unread.add("a", transport, 30)
    assert book.bytes == 70
    book.unread.remove("a")


async def test_a_long_answer_over_tls_that_is_read_gives_way_to_others() -> None:
    book = Book(100)
    done, unread, last = (UnreadTransport(0) for _ in range(3))
    book.unread.add("done", done, 60)
    book.unread.add("unread", unread, 40)
    done.read = 60
    book.unread.add("last", last, 50)
    assert ([each.aborted for each in (done, unread, last)], book.bytes) == ([False] * 3, 90)
    book.unread.remove("unread")
    book.unread.remove("last")


async def test_a_client_that_does_not_read_a_long_answer_over_tls_is_aborted_in_time() -> None:
    book = Book(100)
    transport = UnreadTransport(0)
    book.unread.add("a", transport, 60)
    for passed in range(240):
        assert (transport.aborted, book.bytes) == (False, 60), passed
        _, call, *what = book.later[-1]
        call(*what)
    assert (transport.aborted, book.bytes) == (True, 0)


@pytest.fixture
async def connected() -> tuple[WatchedConnection, UnreadTransport, Book]:
    """A connection whose transport has 10 unread bytes."""

    async def nothing(_request: web.BaseRequest) -> web.StreamResponse:
        return web.Response()

    book, transport = Book(100), UnreadTransport(10)
    connection = WatchedConnection(
        web.Server(nothing),
        write_buffers=book.unread,
        limit=ConnectionLimit(lambda: 1, lambda _: b""),
        loop=asyncio.get_running_loop(),
    )
    connection.connection_made(transport)
    await asyncio.sleep(0)  # it begins to wait for requests
    return connection, transport, book


async def test_a_connection_that_reads_again_is_counted_no_longer(connected: Any) -> None:
    connection, _, book = connected
    connection.pause_writing()
    assert book.bytes == 10
    connection.resume_writing()
    assert book.bytes == 0
    connection.connection_lost(None)


async def test_unread_bytes_of_a_closing_connection_count_until_it_is_lost(
    connected: Any,
) -> None:
    connection, transport, book = connected
    connection.pause_writing()
    connection.force_close()
    connection.resume_writing()
    assert (transport.closed, book.bytes) == (True, 10)
    connection.connection_lost(None)
    assert book.bytes == 0


async def test_a_connection_that_closes_after_its_last_answer_is_counted(
    connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection, transport, book = connected

    async def end(_self: web.RequestHandler) -> None:
        transport.close()

    monkeypatch.setattr(web.RequestHandler, "start", end)
    await connection.start()
    assert book.bytes == 10
    connection.connection_lost(None)
    assert book.bytes == 0


class Wide(Halves):
    """Answers 8 MiB a row."""

    info = replace(
        Halves.info,
        outputs=(TensorSpec("Y", "FP32", (-1, 2 * MIB)), TensorSpec("N", "INT64", (-1, 1))),
        max_rows=4,
    )

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return zeros."""
        outputs = super().run(inputs)
        return {"Y": np.zeros((len(outputs["N"]), 2 * MIB), np.float32), "N": outputs["N"]}


@pytest.mark.parametrize("fast_path", [True, False])
async def test_unread_answers_take_their_share_at_most_and_not_for_long(
    start: Any, until: Any
) -> None:
    pod = await start(model=Wide(), max_held_bytes=64 * MIB, body_timeout_seconds=2.0)
    asked = binary(parameters={"binary_data_output": True})
    clients = [await silent(pod.url, asked) for _ in range(16)]
    await until(lambda: pod.pod.counters.ended[RequestOutcome.COMPLETED] == 16)
    unread, counted = list[int](), list[int]()

    def all_cut_off() -> bool:
        unread.append(unread_bytes(pod))
        counted.append(pod.pod.admission.memory.held_bytes)
        return bool(pod.client.open_connections() == 0)

    await until(all_cut_off)
    assert 0 < max(unread) <= 32 * MIB
    assert 0 < max(counted) <= 32 * MIB
    assert pod.pod.admission.memory.held_bytes == 0
    for client in clients:
        client.close()


@pytest.mark.parametrize("fast_path", [True, False])
async def test_unread_answers_over_tls_take_their_share_at_most_and_not_for_long(
    start: Any, until: Any, tmp_path: Path
) -> None:
    authority = Authority.make()
    authority.issue(tmp_path, "pod")
    context = ServerCertificate(tmp_path).context
    pod = await start(model=Wide(), tls=context, max_held_bytes=64 * MIB, body_timeout_seconds=2.0)
    trust = ssl.create_default_context(cadata=authority.pem())
    host, port = pod.url.removeprefix("https://").split(":")
    writers = []
    for _ in range(16):
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((host, int(port)))
        reader, writer = await asyncio.open_connection(
            sock=client, ssl=trust, server_hostname="pod", limit=1
        )
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(binary(parameters={"binary_data_output": True}))
        writers.append(writer)
    await until(lambda: pod.pod.counters.ended[RequestOutcome.COMPLETED] == 16)
    counted = list[int]()

    def all_cut_off() -> bool:
        counted.append(pod.pod.admission.memory.held_bytes)
        return bool(pod.client.open_connections() == 0)

    await until(all_cut_off)
    assert 16 * MIB < max(counted) <= 33 * MIB
    assert pod.pod.admission.memory.held_bytes == 0
    for writer in writers:
        writer.transport.abort()


@pytest.mark.parametrize("fast_path", [True, False])
async def test_an_answer_that_is_read_slowly_is_read_whole(start: Any) -> None:
    pod = await start(model=Wide(), body_timeout_seconds=2.0)
    client = await silent(pod.url, binary(parameters={"binary_data_output": True}))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)
    read, loop = 0, asyncio.get_running_loop()
    while read < 8 * MIB:
        part = len(await loop.sock_recv(client, 2**17))
        assert part, f"cut after {read} bytes"
        read += part
        await asyncio.sleep(0.05)
    client.close()


@pytest.mark.parametrize("fast_path", [True, False])
async def test_a_pod_that_stops_waits_until_its_answers_are_read(start: Any, until: Any) -> None:
    pod = await start(model=Wide(), accept_seconds=0.0)
    client = await silent(pod.url, binary(parameters={"binary_data_output": True}))
    await until(lambda: pod.pod.counters.ended[RequestOutcome.COMPLETED] == 1)
    pod.clock.stop()
    pod.clock.move(IDLE_SECONDS)
    draining = asyncio.create_task(drain(pod.pod, pod.client))
    await asyncio.sleep(5 * LOOK_SECONDS)
    assert not draining.done()
    read, loop = 0, asyncio.get_running_loop()
    while read < 8 * MIB:
        read += len(await loop.sock_recv(client, MIB))
    await draining
    client.close()


async def test_clients_that_never_read_do_not_keep_the_cluster_port_from_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cluster_port, "READ_SECONDS", 0.5)

    async def wide(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(8 * MIB))

    app = web.Application()
    app.add_routes([web.get("/metrics", wide), web.get("/healthz", wide)])
    http = HttpConfig(host="127.0.0.1", cluster_port=0)
    port = cluster_port.ClusterPort(http, "pod-0", app, None)
    url = f"http://127.0.0.1:{await port.start()}"
    asked = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
    clients = [await silent(url, asked) for _ in range(descriptors.CLUSTER_CONNECTIONS)]
    statuses = [0]
    async with asyncio.timeout(8), aiohttp.ClientSession() as session:
        while statuses[-1] != 200:
            await asyncio.sleep(0.1)
            async with session.get(f"{url}/healthz") as reply:
                statuses.append(reply.status)
    for client in clients:
        client.close()
    await port.stop()


async def silent(url: str, asked: bytes) -> socket.socket:
    """Return a client that sends a request and never reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, ("127.0.0.1", int(url.rsplit(":", 1)[1])))
    await loop.sock_sendall(client, asked)
    return client


def connections(pod: Any) -> list[Any]:
    """Return those that are open."""
    return [
        connection
        for connection in pod.client._runner.server.connections
        if connection.transport is not None
    ]


def unread_bytes(pod: Any) -> int:
    """Return the bytes in the write buffers of all connections."""
    return sum(connection.transport.get_write_buffer_size() for connection in connections(pod))
