"""Conversations in raw bytes, for the comparison of both paths."""

import gzip
import json
import struct
from dataclasses import dataclass
from typing import Any

PATH = "/v2/models/halves/infer"


def body(rows: int = 1, value: float = 2.0, **more: Any) -> bytes:
    """Return a valid call in JSON."""
    x = {"name": "X", "datatype": "FP32", "shape": [rows, 3], "data": [value] * 3 * rows}
    k = {"name": "K", "datatype": "INT64", "shape": [rows, 2], "data": [1] * 2 * rows}
    return json.dumps({"inputs": [x, k], **more}).encode()


def post(
    data: bytes, *fields: str, path: str = PATH, version: str = "1.1", length: Any = None
) -> bytes:
    """Return a request; `length` other than None replaces the true one, and ... leaves it out."""
    size = len(data) if length is None else length
    lines = [f"POST {path} HTTP/{version}", "Host: pod", *fields]
    if length is not ...:
        lines.append(f"Content-Length: {size}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + data


def chunked(data: bytes, size: int = 20) -> bytes:
    """Return `data` as a chunked body."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def binary(*fields: str, zeros: int = 0, columns: int = 2, **more: Any) -> bytes:
    """Return a request whose tensors follow its JSON; the length of the JSON has so many leading zeros."""
    x = {"name": "X", "datatype": "FP32", "shape": [1, 3], "parameters": {"binary_data_size": 12}}
    k = {
        "name": "K",
        "datatype": "INT64",
        "shape": [1, columns],
        "parameters": {"binary_data_size": 8 * columns},
    }
    head = json.dumps({"inputs": [x, k], **more}).encode()
    data = head + struct.pack("<3f2q", 1.0, 2.5, -3.0, 4, 2**40) + bytes(8 * (columns - 2))
    return post(data, f"Inference-Header-Content-Length: {'0' * zeros}{len(head)}", *fields)


def get(path: str) -> bytes:
    """Return a request without a body."""
    return f"GET {path} HTTP/1.1\r\nHost: pod\r\n\r\n".encode()


@dataclass(frozen=True)
class Case:
    """The pieces that a client sends, and the number of answers that it waits for."""

    sent: tuple[bytes, ...]
    answers: int = 1
    leaves: bool = False
    """Whether the client leaves with its answer: aiohttp would wait a while for the rejected body."""


def pieces(whole: bytes, size: int) -> tuple[bytes, ...]:
    """Return `whole` cut in pieces."""
    return tuple(whole[at : at + size] for at in range(0, len(whole), size))


GOOD = post(body())
HEAD_ONLY = GOOD[: GOOD.index(b"\r\n\r\n") + 4]
WANTED: dict[str, Any] = {
    "outputs": [{"name": "N"}, {"name": "Y", "parameters": {"binary_data": True}}]
}

CASES: dict[str, Case] = {
    "plain": Case((GOOD,)),
    "several rows": Case((post(body(rows=5, value=0.1)),)),
    "an id, a priority and a deadline": Case((post(body(id="a\u00e9", parameters={"priority": 2, "timeout": 9_000_000})),)),
    "chosen outputs": Case((post(body(**WANTED)),)),
    "nested data": Case((post(body().replace(b"[2.0, 2.0, 2.0]", b"[[2.0, 2.0, 2.0]]")),)),
    "numbers that JSON lacks": Case((post(body().replace(b"[2.0, 2.0, 2.0]", b"[NaN, Infinity, 1]")),)),
    "integers for floats": Case((post(body().replace(b"[2.0, 2.0, 2.0]", b"[1, -0, 16777217]")),)),
    "its own request id": Case((post(body(), "X-Request-Id: mine-1"),)),
    "a request id that is none": Case((post(body(), "X-Request-Id: not mine"),)),
    "a time-out header": Case((post(body(), "X-Request-Timeout-Ms: 60000"),)),
    "a broken time-out header": Case((post(body(), "X-Request-Timeout-Ms: 1e3"),)),
    "a time-out header with zeros before it": Case((post(body(), "X-Request-Timeout-Ms: " + "0" * 20 + "60000"),)),
    "any case and spaces": Case((post(body(), "content-TYPE:   application/json  ", "ACCEPT: */*"),)),
    "many header fields": Case((post(body(), *(f"X-Field-{n}: {n}" for n in range(50))),)),
    "by version": Case((post(body(), path="/v2/models/halves/versions/1/infer"),)),
    "binary": Case((binary(),)),
    "binary twice": Case((binary(), binary()), 2),
    "binary in and out": Case((binary(parameters={"binary_data_output": True}),)),
    "binary of the wrong size": Case((post(b"{}xx", "Inference-Header-Content-Length: 2"),)),
    "binary behind a length with zeros before it": Case((binary(zeros=20),)),
    "one after another": Case((GOOD, post(body(value=8.0)), GOOD), 3),
    "pipelined": Case((GOOD + post(body(value=8.0)) + GOOD,), 3),
    "pipelined, then split": Case((GOOD + GOOD[:40], GOOD[40:]), 2),
    "head and body apart": Case((HEAD_ONLY, GOOD[len(HEAD_ONLY) :])),
    "split in the head": Case((GOOD[:9], GOOD[9:50], GOOD[50:])),
    "in small pieces": Case(pieces(GOOD, 23)),
    "a question first": Case((get("/v2/models/halves"), GOOD, get("/v2"), GOOD), 4),
    "a question pipelined behind": Case((GOOD + get("/v2/health/live") + GOOD,), 3),
    "compressed": Case((post(gzip.compress(body(), mtime=0), "Content-Encoding: gzip"), GOOD), 2),
    "wants compression": Case((post(body(), "Accept-Encoding: gzip, deflate"),)),
    "an identity coding": Case((post(body(), "Content-Encoding: identity"),)),
    "an unknown coding": Case((post(body(), "Content-Encoding: br"),)),
    "chunked": Case((post(chunked(body()), "Transfer-Encoding: chunked", length=...), GOOD), 2),
    "broken chunks": Case((post(b"zz\r\n", "Transfer-Encoding: chunked", length=...),)),
    "expects a 100, and sends": Case((post(b"", "Expect: 100-continue", length=len(body())), body()), 2),
    "expects a 100 for too much": Case((post(b"", "Expect: 100-continue", length=2**30),), leaves=True),
    "HTTP/1.0": Case((post(body(), version="1.0"),)),
    "HTTP/1.0, kept alive": Case((post(body(), "Connection: keep-alive", version="1.0"),)),
    "HTTP/2.0": Case((post(body(), version="2.0"),)),
    "kept alive": Case((post(body(), "Connection: Keep-Alive"), GOOD), 2),
    "the last": Case((post(body(), "Connection: close"),)),
    "wants an upgrade": Case((post(body(), "Connection: upgrade", "Upgrade: h2c"),)),
    "not JSON": Case((post(b"{"), GOOD), 2),
    "no body": Case((post(b""),)),
    "a model's error": Case((post(body(value=666)), GOOD), 2),
    "another model": Case((post(body(), path="/v2/models/other/infer"), GOOD), 2),
    "a name in percents": Case((post(body(), path="/v2/models/%68alves/infer"),)),
    "a query": Case((post(body(), path=PATH + "?a=1"),)),
    "a whole URL": Case((post(body(), path="http://pod" + PATH),)),
    "too large": Case((post(b"", length=2**21),), leaves=True),
    "no length": Case((post(b"", length=...),)),
    "two lengths": Case((post(body(), "Content-Length: 5"),)),
    "a length with a sign": Case((post(body(), length="+5"),)),
    "a length with a zero before it": Case((post(body(), length=f"0{len(body())}"),)),
    "a length and chunks": Case((post(chunked(body()), "Transfer-Encoding: chunked"),)),
    "an empty line first": Case((b"\r\n" + GOOD,)),
    "an oversized field": Case((post(body(), "X-Large: " + "a" * 9000),)),
    "an oversized line": Case((post(body(), path="/v2/" + "a" * 9000),)),
    "too many fields": Case((post(body(), *(f"X-{n}: a" for n in range(300))),)),
    "a field without a colon": Case((post(body(), "X-Broken"),)),
    "a folded field": Case((post(body(), "X-Folded: a\r\n b"),)),
    "a space before the colon": Case((post(body(), "X-Spaced : a"),)),
    "a null in a field": Case((post(body(), "X-Null: \0"),)),
    "bytes beyond ASCII": Case((post(body(), "X-Latin: \xe9"),)),
    "bare line feeds": Case((GOOD.replace(b"\r\n", b"\n"),)),
    "a null first": Case((b"\0\r\n\r\n",)),
    "no HTTP at all": Case((b"\x16\x03\x01\x02\x00\x01\x00" * 10 + b"\r\n\r\n",)),
    "no host": Case((GOOD.replace(b"Host: pod\r\n", b""),)),
    "two hosts": Case((post(body(), "Host: other"),)),
}  # fmt: skip
