"""Both paths answer the same bytes to the same bytes, and each request takes the expected path."""

import asyncio
import re
import socket
import weakref
from contextlib import suppress
from typing import Any

import pytest

from penstock_runtime.engine.messages import Submit, ToEngine
from penstock_runtime.http.fast_path import connection, receive_buffer
from penstock_runtime.protocols.common.json_structure import SMALL_BYTES
from penstock_runtime.protocols.common.request_ids import trace_of
from penstock_runtime.protocols.open_inference.bodies import HEADER_LENGTH
from penstock_runtime.request import Failed, RequestOutcome, Tensor
from tests.unit.runtime.http.wire_cases import (
    CASES,
    GOOD,
    Case,
    binary,
    body,
    chunked,
    get,
    pieces,
    post,
)

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n"
VARYING = re.compile(
    rb"(Date: [^\r]*|X-Penstock-Queue-Seconds: [0-9.]*|X-Request-Id: [0-9a-f]{32}|after [0-9.]+ s of)"
)


async def one_answer(reader: asyncio.StreamReader) -> bytes:
    """Return the next answer, or what there is of it when the server closes."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\nContent-Length: (\d+)", head)
        return head + (await reader.readexactly(int(length[1])) if length else b"")
    except asyncio.IncompleteReadError as end:
        return end.partial


async def converse(url: str, case: Case) -> bytes:
    """Return all that a pod says to a client that sends `case` and then takes its leave."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    said = b""
    try:
        async with asyncio.timeout(60):
            for piece in case.sent:
                writer.write(piece)
                await asyncio.sleep(0.002)
            for _ in range(case.answers):
                said += await one_answer(reader)
            if case.leaves:
                return said
            writer.write(LAST)
            return said + await reader.read()
    except ConnectionError:
        return said
    except TimeoutError:
        return said + b"(silence)"
    finally:
        writer.transport.abort()


async def test_both_paths_answer_every_conversation_with_the_same_bytes(start: Any) -> None:
    fast, slow = await start(fast_path=True), await start(fast_path=False)
    different = {}
    for name, case in CASES.items():
        said = [VARYING.sub(b"~", await converse(pod.url, case)) for pod in (fast, slow)]
        if said[0] != said[1] or not said[0].startswith(b"HTTP/"):
            different[name] = said
    assert different == {}, "\n".join(
        f"{name}:\n  {a!r}\n  {b!r}" for name, (a, b) in different.items()
    )
    assert fast.pod.counters.rejected == slow.pod.counters.rejected
    assert fast.pod.counters.ended == slow.pod.counters.ended
    assert fast.pod.counters.settled() == fast.pod.counters.received == slow.pod.counters.received
    assert fast.pod.counters.rows_received == slow.pod.counters.rows_received


def by_aiohttp(pod: Any) -> int:
    """Return how many requests went aiohttp's way."""
    return int(pod.client._runner.server.requests_count)


async def exchange(writer: Any, reader: Any, *sent: bytes) -> bytes:
    for piece in sent:
        writer.write(piece)
        await asyncio.sleep(0.002)
    return await one_answer(reader)


async def connected(pod: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))


@pytest.mark.usefixtures("patient")
async def test_plain_requests_never_meet_aiohttp(pod: Any) -> None:
    reader, writer = await connected(pod)
    for sent in ([GOOD], pieces(GOOD, 40), [post(b"{}")], [post(body(rows=3))]):
        assert (await exchange(writer, reader, *sent)).startswith(b"HTTP/1.1 ")
    assert by_aiohttp(pod) == 0
    writer.close()


@pytest.mark.usefixtures("patient")
async def test_a_request_that_is_not_plain_is_lent_to_aiohttp_and_the_next_is_fast_again(
    pod: Any,
) -> None:
    reader, writer = await connected(pod)
    for sent in (get("/v2"), GOOD, post(body(), path="/v2/models/other/infer"), GOOD):
        await exchange(writer, reader, sent)
    assert by_aiohttp(pod) == 2
    writer.close()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("cut", [2**16, 2**20])
@pytest.mark.parametrize("has_length", [False, True])
async def test_aiohttp_gets_json_over_the_limit_also_where_the_head_gives_its_length(
    pod: Any, has_length: bool, cut: int
) -> None:
    for size, handed_over in ((SMALL_BYTES, 0), (SMALL_BYTES + 1, 1)):
        fields = [f"{HEADER_LENGTH}: {size}"] * has_length
        reader, writer = await connected(pod)
        sent = pieces(post(body().ljust(size), *fields), cut)
        assert (await exchange(writer, reader, *sent)).startswith(b"HTTP/1.1 200")
        assert by_aiohttp(pod) == handed_over
        writer.close()


@pytest.mark.usefixtures("patient")
async def test_long_binary_data_after_short_json_takes_the_fast_path(pod: Any) -> None:
    reader, writer = await connected(pod)
    sent = pieces(binary(columns=100_000), 2**16)
    assert (await exchange(writer, reader, *sent)).startswith(b"HTTP/1.1 200")
    assert by_aiohttp(pod) == 0
    writer.close()


async def test_a_framing_that_is_not_plain_keeps_its_connection_with_aiohttp(pod: Any) -> None:
    reader, writer = await connected(pod)
    for sent in (post(chunked(body()), "Transfer-Encoding: chunked", length=...), GOOD):
        assert (await exchange(writer, reader, sent)).startswith(b"HTTP/1.1 200")
    assert by_aiohttp(pod) == 2
    writer.close()


async def test_a_slow_sender_is_handed_over_to_aiohttp(
    start: Any, until: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(connection, "COLLECT_SECONDS", 0.02)
    for body_seconds, rest, status in ((60.0, GOOD[-1:], 200), (0.2, b"", 408)):
        pod = await start(body_timeout_seconds=body_seconds)
        reader, writer = await connected(pod)
        writer.write(GOOD[:-1])
        await until(lambda: by_aiohttp(pod) == 1)  # noqa: B023
        writer.write(rest)
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 %d" % status)
        assert by_aiohttp(pod) == 1
        writer.close()


@pytest.mark.parametrize("earlier", [0, 1])
async def test_a_head_that_drips_ends_with_the_keep_alive_time(
    start: Any, monkeypatch: Any, earlier: int
) -> None:
    monkeypatch.setattr(connection, "COLLECT_SECONDS", 0.3)
    pod = await start(keep_alive_seconds=0.6)
    reader, writer = await connected(pod)
    for _ in range(earlier):
        assert (await exchange(writer, reader, GOOD)).startswith(b"HTTP/1.1 200")

    async def drip() -> None:
        for number in range(200):
            writer.write(GOOD[number : number + 1])
            await asyncio.sleep(0.05)

    dripping = asyncio.create_task(drip())
    async with asyncio.timeout(5):
        with suppress(ConnectionResetError):  # bytes that the pod has not read make the end a reset
            assert await reader.read() == b""
    dripping.cancel()
    writer.close()


@pytest.mark.usefixtures("patient")
async def test_a_pipelined_body_larger_than_the_buffer_is_read_to_its_end(
    pod: Any, until: Any
) -> None:
    large = body() + b" " * (receive_buffer.MAX_PIPELINED_BYTES * 3 // 2)
    pod.model.gate.clear()
    reader, writer = await connected(pod)
    writer.write(GOOD + post(large) + post(large))
    await until(lambda: pod.pod.admission.load().running == 1)
    (served,) = pod.client._runner.server.connections
    await until(lambda: served._buffer._stopped)
    pod.model.gate.set()
    for _ in range(3):
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    assert by_aiohttp(pod) == 0
    writer.close()


async def test_a_client_that_leaves_frees_its_place(pod: Any, until: Any) -> None:
    pod.model.gate.clear()
    clients = [await connected(pod) for _ in range(3)]
    for number, (_, writer) in enumerate(clients):
        writer.write(GOOD)
        await until(lambda: pod.pod.admission.submitted() == number + 1)  # noqa: B023
        await until(lambda: pod.pod.admission.load().running == 1)
    clients[2][1].transport.abort()
    await until(lambda: pod.pod.admission.load().waiting == 1)
    assert pod.pod.admission.load().running == 1
    pod.model.gate.set()
    for reader, _ in clients[:2]:
        assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    assert pod.pod.counters.ended[RequestOutcome.CANCELLED] == 1
    assert pod.client.traffic.in_flight == 0
    for _, writer in clients[:2]:
        writer.close()


@pytest.mark.parametrize("fast_path", [True, False])
async def test_only_the_engine_keeps_the_tensors(pod: Any, until: Any) -> None:
    given = list[weakref.ref[Tensor]]()

    def take(message: ToEngine) -> None:
        assert isinstance(message, Submit)
        given.extend(weakref.ref(tensor) for tensor in message.requests[0].inputs.values())

    pod.pod.admission._send = take
    _, writer = await connected(pod)
    writer.write(GOOD)
    await until(lambda: len(given) == 2)
    await until(lambda: [tensor() for tensor in given] == [None, None])
    assert pod.pod.admission.load().waiting == 1
    pod.pod.admission.fail_all(Failed("over"))
    writer.close()


async def test_a_client_that_never_reads_holds_little_memory(start: Any, until: Any) -> None:
    pod = await start(connection_requests=10**6)
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    address = ("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    await asyncio.get_running_loop().sock_connect(client, address)
    _, writer = await asyncio.open_connection(sock=client)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await until(lambda: pod.client.open_connections() == 1)
    (served,) = pod.client._runner.server.connections
    small = served.transport.get_extra_info("socket")
    small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    writer.write(GOOD * 4000)
    await until(lambda: served.writing_paused and served._buffer._stopped, 30.0)
    assert 0 < pod.pod.counters.received < 4000
    assert served.transport.get_write_buffer_size() < 2**18
    assert len(served._buffer.data) < 2**20
    writer.transport.abort()
    await until(lambda: pod.client.open_connections() == 0)


async def test_a_pod_that_stops_lets_a_plain_request_finish(pod: Any, until: Any) -> None:
    pod.model.gate.clear()
    reader, writer = await connected(pod)
    writer.write(GOOD)
    await until(lambda: pod.pod.admission.load().running == 1)
    stopping = asyncio.create_task(pod.client.stop())
    await asyncio.sleep(0.02)
    pod.model.gate.set()
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    await stopping
    writer.close()


async def test_an_idle_connection_is_closed_but_never_one_that_is_owed_an_answer(
    start: Any, until: Any
) -> None:
    pod = await start(keep_alive_seconds=0.1)
    pod.model.gate.clear()
    reader, writer = await connected(pod)
    writer.write(GOOD)
    await asyncio.sleep(0.3)
    pod.model.gate.set()
    assert (await one_answer(reader)).startswith(b"HTTP/1.1 200")
    assert await reader.read() == b""
    writer.close()


async def test_the_access_log_has_a_line_from_either_path(
    start: Any, until: Any, caplog: Any
) -> None:
    for fast in (True, False):
        pod = await start(fast_path=fast, access_log=True)
        caplog.clear()
        with caplog.at_level("INFO", "penstock_runtime.access"):
            reader, writer = await connected(pod)
            await exchange(
                writer, reader, post(body(), "X-Request-Id: mine", f"traceparent: {TRACE}")
            )
            await until(
                lambda: any(record.name == "penstock_runtime.access" for record in caplog.records)
            )
        (line,) = [record for record in caplog.records if record.name == "penstock_runtime.access"]
        assert line.getMessage() == "POST /v2/models/halves/infer"
        assert (line.status, line.request_id, line.remote) == (200, "mine", "127.0.0.1")
        assert (line.trace_id, line.parent_span_id) == (TRACE[3:35], TRACE[36:52])
        assert line.seconds >= 0
        writer.close()


async def test_a_client_that_leaves_has_a_line_from_either_path(
    start: Any, until: Any, caplog: Any
) -> None:
    for fast in (True, False):
        pod = await start(fast_path=fast, access_log=True)
        caplog.clear()
        with caplog.at_level("INFO", "penstock_runtime.access"):
            pod.model.gate.clear()
            _, writer = await connected(pod)
            writer.write(post(body(), "X-Request-Id: mine"))
            await until(lambda pod=pod: pod.pod.admission.load().running == 1)
            writer.close()
            await until(lambda pod=pod: pod.pod.admission.load().running == 0)
            pod.model.gate.set()
        (line,) = [record for record in caplog.records if record.name == "penstock_runtime.access"]
        assert line.getMessage() == "POST /v2/models/halves/infer"
        assert (line.status, line.outcome, line.request_id) == (499, "Cancelled", "mine")
        assert (line.remote, line.seconds > 0) == ("127.0.0.1", True)


@pytest.mark.parametrize(
    "parent",
    [
        None,
        "",
        "ff" + TRACE[2:],
        TRACE[:-1],
        TRACE.upper(),
        "00-" + "0" * 32 + TRACE[35:],
        TRACE + "x",
    ],
)
def test_an_invalid_traceparent_is_not_logged(parent: str | None) -> None:
    assert trace_of(parent) == {}
