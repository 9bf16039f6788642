"""Requests that are pipelined and cut at random bytes: the answers come in order, complete, and equal to those of single requests."""

import asyncio
import gzip
import json
from itertools import pairwise
from random import Random
from typing import Any, Final

import pytest

from penstock_runtime.http.fast_path import connection
from tests.support.fuzz.budget import Fuzz
from tests.unit.runtime.http.fast_path.test_fast_path import VARYING
from tests.unit.runtime.http.wire_cases import PATH, binary, body, chunked, post

ID: Final = "X-Request-Id: mine-00000000"
LAST: Final = (
    f"GET /v2/health/live HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n{ID}\r\n\r\n".encode()
)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: pod\r\n{ID}\r\n\r\n".encode()


PLAIN: Final = [
    post(body(), ID),
    post(body(rows=7, value=0.1), ID),
    post(body(id="mine", parameters={"priority": 2}), ID),
    post(body() + b" " * 3000, ID),
    post(body(), ID, "Accept: */*", *(f"X-Field-{n}: {n}" for n in range(40))),
    post(b"{", ID),
    post(b"", ID),
    post(b'{"inputs":"\xff"}', ID),
    post(json.dumps({"inputs": []}).encode(), ID),
    post(body(value=666), ID),
    binary(ID),
    binary(ID, parameters={"binary_data_output": True}),
]
LENT: Final = [
    get("/v2"),
    get("/v2/health/ready"),
    get("/v2/models/halves"),
    get("/v1/nowhere"),
    get(PATH),
    post(body(), ID, path="/v2/models/other/infer"),
    post(body(), ID, "X-Request-Timeout-Ms: 1e3"),
    post(gzip.compress(body(), mtime=0), ID, "Content-Encoding: gzip"),
    post(body(), ID, "Accept-Encoding: deflate"),
]
HANDED_OVER: Final = [post(chunked(body()), ID, "Transfer-Encoding: chunked", length=...)]
"""From one of these on a connection is aiohttp's."""


def port_of(pod: Any) -> int:
    return int(pod.url.rsplit(":", 1)[1])


async def converse(port: int, pieces: list[bytes], draw: Random) -> bytes:
    """Send `pieces` with and without pauses, and return all that the pod says until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(30):
            reading = asyncio.create_task(reader.read())
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                if draw.random() < 0.5:
                    await asyncio.sleep(draw.choice((0, 0, 0.0005, 0.002, 0.01)))
            return VARYING.sub(b"~", await reading)
    finally:
        writer.transport.abort()


def cut(whole: bytes, draw: Random) -> list[bytes]:
    """Cut at random bytes: a few anywhere, or many close together, such as in one head."""
    places = {draw.randrange(1, len(whole)) for _ in range(draw.choice((0, 1, 2, 5, 12)))}
    if draw.random() < 0.3:
        start = draw.randrange(1, len(whole))
        places |= set(range(start, min(start + draw.randrange(60), len(whole))))
    edges = [0, *sorted(places), len(whole)]
    return [whole[a:b] for a, b in pairwise(edges)]


def numbered(text: bytes, number: int) -> bytes:
    return text.replace(b"mine-00000000", b"mine-%08d" % number)


async def pipelines_are_answered_in_order(fuzz: Fuzz, pods: list[Any]) -> None:
    draw = fuzz.random
    known = [*PLAIN, *LENT, *HANDED_OVER, LAST]
    said = [await converse(port_of(pods[0]), [request + LAST], Random(0)) for request in known]  # noqa: S311
    bye = await converse(port_of(pods[0]), [LAST], Random(0))  # noqa: S311
    single = {
        sent: answer.removesuffix(bye) if sent is not LAST else bye
        for sent, answer in zip(known, said, strict=True)
    }
    assert all(answer.startswith(b"HTTP/1.1 ") for answer in single.values())
    requests = 0
    for _ in fuzz.rounds():
        pool = draw.choice((PLAIN, PLAIN + LENT, PLAIN + LENT + HANDED_OVER))
        sent = [*draw.choices(pool, k=draw.randint(1, 12)), LAST]
        requests += len(sent)
        whole = b"".join(numbered(request, at) for at, request in enumerate(sent))
        expected = b"".join(numbered(single[request], at) for at, request in enumerate(sent))
        pieces = cut(whole, draw)
        for pod in pods:
            received = await converse(port_of(pod), pieces, draw)
            assert received == expected, (
                f"{fuzz.where()}, fast path: {pod is pods[0]}: {pieces!r}\n{received!r}\n{expected!r}"
            )
    print(f"{requests} requests to each of {len(pods)} pods")
    for counters in (pod.pod.counters for pod in pods):
        assert counters.settled() == counters.received > 0


@pytest.fixture
async def pods(start: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A pod on each path; the fast one stops collecting within the pauses between pieces."""
    monkeypatch.setattr(connection, "COLLECT_SECONDS", 0.005)
    return [await start(fast_path=fast, connection_requests=1000) for fast in (True, False)]


async def test_pipelined_requests_cut_anywhere_are_answered_in_order(pods: list[Any]) -> None:
    await pipelines_are_answered_in_order(Fuzz("pipelines", 60, seed=1), pods)


@pytest.mark.long
@pytest.mark.timeout(3600)
async def test_many_pipelined_requests_cut_anywhere_are_answered_in_order(pods: list[Any]) -> None:
    await pipelines_are_answered_in_order(Fuzz("pipelines", 6000), pods)
