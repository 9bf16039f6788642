"""The memory of bodies: what counts, until when, and the answers where it does not fit."""

import asyncio
import gzip
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock_runtime.errors import BadInput
from penstock_runtime.protocols.open_inference import routes
from tests.unit.runtime.protocols.open_inference.test_bad_requests import Body, good

pytestmark = pytest.mark.parametrize("fast_path", [True, False], ids=["fast", "aiohttp"])


async def test_a_body_counts_until_its_thread_ends_though_its_client_left(
    pod: Any, monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    begun, shut = threading.Event(), threading.Event()

    def slow(*_given: Any) -> None:
        begun.set()
        assert shut.wait(10)
        raise BadInput("late")

    monkeypatch.setattr(routes, "call_of", slow)
    memory, body = pod.pod.admission.memory, json.dumps(good() | {"pad": "a" * 200_000}).encode()
    task = asyncio.create_task(pod.session.post(f"{pod.url}/v2/models/halves/infer", data=body))
    await until(begun.is_set)
    task.cancel()
    await until(lambda: pod.pod.counters.settled() == 1)
    assert memory.held_bytes == len(body)
    shut.set()
    await until(lambda: memory.held_bytes == 0)


async def test_bodies_that_fill_the_memory_are_rejected_until_some_have_left(
    start: Any, until: Any, call: Callable[..., Body]
) -> None:
    large = call(rows=40)
    pod = await start(max_held_bytes=5 * len(json.dumps(large)) // 2)
    pod.model.gate.clear()
    tasks = [asyncio.create_task(pod.infer(large)) for _ in range(2)]
    await until(lambda: pod.pod.admission.load().waiting + pod.pod.admission.load().running == 2)
    async with await pod.infer(large) as reply:
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert "bytes" in (await reply.json())["error"]
    pod.model.gate.set()
    assert [(await task).status for task in tasks] == [200, 200]
    async with await pod.infer(large) as reply:
        assert reply.status == 200
    assert pod.pod.counters.rejected == {"MemoryFull": 1}


async def test_bodies_that_are_announced_and_not_sent_do_not_block_others(
    start: Any, call: Callable[..., Body]
) -> None:
    pod = await start(max_held_bytes=8 * 2**20)
    silent = [await announced(pod, 2**20) for _ in range(8)]
    for reader, _ in silent:
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    async with await pod.infer(call()) as reply:
        assert reply.status == 200
    for _, writer in silent:
        writer.close()


async def test_a_body_that_would_not_fit_is_rejected_before_it_is_sent(
    start: Any, until: Any, call: Callable[..., Body]
) -> None:
    large = call(rows=40)
    pod = await start(max_held_bytes=2**20 + len(json.dumps(large)) // 2)
    pod.model.gate.clear()
    task = asyncio.create_task(pod.infer(large))
    await until(lambda: pod.pod.admission.load().running == 1)
    reader, writer = await announced(pod, 2**20)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 429 ")
    writer.close()
    pod.model.gate.set()
    assert (await task).status == 200


async def test_a_body_that_no_pod_of_this_memory_takes_is_413_and_closes_unread(start: Any) -> None:
    pod = await start(max_held_bytes=2**19)
    reader, writer = await announced(pod, 2**20)
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in head
    assert b"Retry-After" not in head
    assert b"needs 1048576 bytes, more than the 524288" in await reader.read()
    writer.close()


async def announced(pod: Any, size: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection that sent `Expect: 100-continue` for a body of `size` bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    head = f"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n"
    writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
    return reader, writer


@pytest.mark.parametrize("kind", ["chunked", "gzip", "gzip in chunks"])
async def test_an_unfinished_body_counts_with_its_received_bytes(
    start: Any, until: Any, call: Callable[..., Body], kind: str
) -> None:
    pod = await start(max_held_bytes=200_000)
    body = b"[" + bytes(900_000)
    sent = gzip.compress(body) if "gzip" in kind else body
    if "chunk" in kind:
        framing, sent = "Transfer-Encoding: chunked", b"%x\r\n%b\r\n" % (len(sent), sent)
    else:
        framing, sent = f"Content-Length: {len(sent)}", sent[:-1]
    coding = "Content-Encoding: gzip\r\n" if "gzip" in kind else ""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    writer.write(
        f"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\n{coding}{framing}\r\n\r\n".encode()
    )
    writer.write(sent)
    async with asyncio.timeout(3):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.transport.abort()
    assert head.startswith(b"HTTP/1.1 413 ")
    assert pod.pod.counters.rejected == {"TooLarge": 1}
    await until(pod.pod.admission.empty)
    async with await pod.infer(call()) as reply:
        assert reply.status == 200


async def test_tensors_larger_than_their_text_count_with_their_size(
    start: Any, call: Callable[..., Body]
) -> None:
    pod = await start(max_held_bytes=100_000)
    body = call()
    body["inputs"][1] |= {"shape": [1, 20_000], "data": [1] * 20_000}
    text = json.dumps(body, separators=(",", ":"))
    assert len(text) < 50_000
    url = f"{pod.url}/v2/models/halves/infer"
    async with pod.session.post(url, data=text) as reply:
        assert (reply.status, "Retry-After" in reply.headers) == (413, False)
        assert "this request needs 160" in (await reply.json())["error"]
    assert pod.pod.counters.rejected == {"TooLarge": 1}
    async with await pod.infer(call()) as reply:
        assert reply.status == 200


async def test_tensors_of_a_large_body_count_with_their_text_while_they_are_decoded(
    start: Any, call: Callable[..., Body]
) -> None:
    body = call()
    body["inputs"][1] |= {"shape": [1, 200_000], "data": [1] * 200_000}
    text = json.dumps(body, separators=(",", ":"))
    for room, status in ((100_000, 200), (-100_000, 413)):
        pod = await start(max_held_bytes=len(text) + 8 * 200_000 + room)
        async with pod.session.post(f"{pod.url}/v2/models/halves/infer", data=text) as reply:
            assert reply.status == status
        assert pod.pod.admission.memory.held_bytes == 0
