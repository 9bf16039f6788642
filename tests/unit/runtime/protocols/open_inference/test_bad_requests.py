"""Malformed requests: each is answered 4xx with its field, and does not affect its batch-mates."""

import asyncio
import copy
import gzip
import io
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

Body = dict[str, Any]
pytestmark = pytest.mark.parametrize("fast_path", [True, False], ids=["fast", "aiohttp"])


def good() -> Body:
    return {
        "inputs": [
            {"name": "X", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]},
            {"name": "K", "datatype": "INT64", "shape": [2, 1], "data": [1, 2]},
        ]
    }


def changed(at: str, value: Any) -> Body:
    """Return the good body with one place set, e.g. `inputs.0.shape`; `...` removes it."""
    body = copy.deepcopy(good())
    *path, last = [int(part) if part.isdigit() else part for part in at.split(".")]
    place: Any = body
    for part in path:
        place = place.setdefault(part, {}) if isinstance(place, dict) else place[part]
    if value is ...:
        del place[last]
    elif isinstance(place, list) and last == len(place):
        place.append(value)
    else:
        place[last] = value
    return body


JSON_CASES: list[tuple[str, Body | Any, str]] = [
    ("body is a list", [1], "body"),
    ("no inputs", changed("inputs", ...), "inputs"),
    ("inputs is an object", changed("inputs", {}), "inputs"),
    ("no input at all", changed("inputs", []), "inputs"),
    ("an input is a number", changed("inputs.0", 5), "inputs[0]"),
    ("missing input", changed("inputs.1", ...), "inputs"),
    ("extra input", changed("inputs.2", {"name": "Z"}), "inputs[2].name"),
    ("input without a name", changed("inputs.0.name", ...), "inputs[0].name"),
    ("name is a list", changed("inputs.0.name", ["X"]), "inputs[0].name"),
    ("input given twice", changed("inputs.1.name", "X"), "inputs[1].name"),
    ("wrong datatype", changed("inputs.0.datatype", "FP64"), "inputs[0].datatype"),
    ("no datatype", changed("inputs.0.datatype", ...), "inputs[0].datatype"),
    ("datatype is a number", changed("inputs.0.datatype", 32), "inputs[0].datatype"),
    ("no shape", changed("inputs.0.shape", ...), "inputs[0].shape"),
    ("shape of strings", changed("inputs.0.shape", ["2", "3"]), "inputs[0].shape"),
    ("shape with a boolean", changed("inputs.0.shape", [True, 3]), "inputs[0].shape"),
    ("shape of too few axes", changed("inputs.0.shape", [6]), "inputs[0].shape"),
    ("shape of too many axes", changed("inputs.0.shape", [2, 3, 1]), "inputs[0].shape"),
    ("wrong size of an axis", changed("inputs.0.shape", [3, 2]), "inputs[0].shape"),
    ("negative rows", changed("inputs.0.shape", [-1, 3]), "inputs[0].shape"),
    ("zero rows", changed("inputs.0.shape", [0, 3]), "inputs[0].shape"),
    ("an empty free axis", changed("inputs.1.shape", [2, 0]), "inputs[1].shape"),
    ("rows that disagree", changed("inputs.1", {**good()["inputs"][1], "shape": [1, 2]}), "inputs[1].shape"),
    ("no data", changed("inputs.0.data", ...), "inputs[0].data"),
    ("data is a string", changed("inputs.0.data", "123456"), "inputs[0].data"),
    ("too little data", changed("inputs.0.data", [1, 2, 3]), "inputs[0].data"),
    ("too much data", changed("inputs.0.data", [1] * 7), "inputs[0].data"),
    ("ragged data", changed("inputs.0.data", [[1, 2, 3], [4, 5]]), "inputs[0].data"),
    ("data nested otherwise", changed("inputs.0.data", [[1, 2], [3, 4], [5, 6]]), "inputs[0].data"),
    ("a string among numbers", changed("inputs.0.data", [1, "2", 3, 4, 5, 6]), "inputs[0].data"),
    ("null among numbers", changed("inputs.0.data", [1, None, 3, 4, 5, 6]), "inputs[0].data"),
    ("a boolean among numbers", changed("inputs.0.data", [1, True, 3, 4, 5, 6]), "inputs[0].data"),
    ("a fraction as an integer", changed("inputs.1.data", [1.5, 2]), "inputs[1].data"),
    ("an integer too large", changed("inputs.1.data", [2**63, 2]), "inputs[1].data"),
    ("a float too large", changed("inputs.0.data", [1e300] * 6), "inputs[0].data"),
    ("parameters is a list", changed("parameters", []), "parameters"),
    ("negative priority", changed("parameters.priority", -1), "parameters.priority"),
    ("priority is a string", changed("parameters.priority", "high"), "parameters.priority"),
    ("priority is a boolean", changed("parameters.priority", True), "parameters.priority"),
    ("negative timeout", changed("parameters.timeout", -5), "parameters.timeout"),
    ("timeout is a fraction", changed("parameters.timeout", 0.5), "parameters.timeout"),
    ("binary_data_output is a string", changed("parameters.binary_data_output", "yes"), "parameters.binary_data_output"),
    ("outputs is a string", changed("outputs", "Y"), "outputs"),
    ("an output is a string", changed("outputs", ["Y"]), "outputs[0]"),
    ("unknown output", changed("outputs", [{"name": "Q"}]), "outputs[0].name"),
    ("output requested twice", changed("outputs", [{"name": "Y"}, {"name": "Y"}]), "outputs[1].name"),
    ("binary_data is a number", changed("outputs", [{"name": "Y", "parameters": {"binary_data": 1}}]), "outputs[0].parameters.binary_data"),
    ("classification", changed("outputs", [{"name": "Y", "parameters": {"classification": 3}}]), "outputs[0].parameters.classification"),
    ("output in shared memory", changed("outputs", [{"name": "Y", "parameters": {"shared_memory_region": "a"}}]), "outputs[0].parameters.shared_memory_region"),
    ("input in shared memory", changed("inputs.0.parameters.shared_memory_region", "a"), "inputs[0].parameters.shared_memory_region"),
    ("id is a number", changed("id", 5), "id"),
    ("negative binary size", changed("inputs.0.parameters.binary_data_size", -1), "inputs[0].parameters.binary_data_size"),
    ("binary size is a string", changed("inputs.0.parameters.binary_data_size", "24"), "inputs[0].parameters.binary_data_size"),
    ("data and binary data", changed("inputs.0.parameters.binary_data_size", 0), "inputs[0].parameters.binary_data_size"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "field"), [case[1:] for case in JSON_CASES], ids=[case[0] for case in JSON_CASES]
)
async def test_a_wrong_body_is_400_with_its_field(pod: Any, body: Any, field: str) -> None:
    async with await pod.infer(body) as reply:
        answer = await reply.json()
        assert (reply.status, answer["field"]) == (400, field), answer
        assert answer["error"]
        assert reply.headers["X-Request-Id"]
    assert pod.pod.counters.rejected == {"BadInput": 1}
    assert pod.pod.counters.settled() == pod.pod.counters.received == 1


def binary(sizes: tuple[Any, Any] = (24, 16), data: bytes = bytes(40)) -> tuple[bytes, int]:
    """Return a binary body whose inputs claim `sizes`, and the length of its JSON."""
    body = good()
    for tensor, size in zip(body["inputs"], sizes, strict=True):
        del tensor["data"]
        tensor["parameters"] = {"binary_data_size": size}
    head = json.dumps(body).encode()
    return head + data, len(head)


def with_text(more: bytes) -> bytes:
    """Return the good body with further members."""
    return json.dumps(good()).encode()[:-1] + b"," + more + b"}"


DEEP = b"[" * 1000 + b"]" * 1000
PACKED = gzip.compress(json.dumps(good()).encode())
HEADER = "Inference-Header-Content-Length"
LENGTH = binary()[1]
HUGE = (
    binary((0, 0), b"")[0]
    .replace(b"[2, 3]", b"[%b, 3]" % (b"9" * 4299))
    .replace(b'"inputs"', b'"a": NaN, "inputs"')
)
BINARY_CASES: list[tuple[str, bytes, dict[str, str], int, str]] = [
    ("not JSON", b"{", {}, 400, "body"),
    ("empty", b"", {}, 400, "body"),
    ("not UTF-8", b'{"inputs": "\xff"}', {}, 400, "body"),
    ("nested without end", b"[" * 100_000, {}, 400, "body"),
    ("NaN nested without end", b"NaN" + b"[" * 100_000, {}, 400, "body"),
    ("a key that is no UTF-8", json.dumps(good()).encode().replace(b"shape", b"sh\xffpe"), {}, 400, "body"),
    ("a priority nested deep", with_text(b'"parameters":{"priority":' + DEEP + b"}"), {}, 400, "parameters.priority"),
    ("an id nested deep", with_text(b'"id":' + DEEP), {}, 400, "id"),
    ("an unknown member nested deeper", with_text(b'"a":' + b"[" * 1100 + b"]" * 1100), {}, 400, "body"),
    ("an axis that no memory holds", json.dumps(changed("inputs.1.shape", [2, 2**30])).encode(), {}, 400, "inputs[1].data"),
    ("an axis of 4,299 digits", with_text(b'"a":NaN').replace(b'"shape": [2, 1]', b'"shape": [2, %b]' % (b"9" * 4299)), {}, 400, "inputs[1].shape"),
    ("rows of 4,299 digits", with_text(b'"a":NaN').replace(b"[2, 3]", b"[%b, 3]" % (b"9" * 4299)), {}, 400, "inputs[0].shape"),
    ("binary rows of 4,299 digits", HUGE, {HEADER: str(len(HUGE))}, 400, "inputs[0].shape"),
    ("a lone surrogate and NaN", with_text(b'"id":"\\ud800","a":NaN'), {}, 400, "body"),
    ("header length is a word", binary()[0], {HEADER: "ten"}, 400, HEADER),
    ("header length is negative", binary()[0], {HEADER: "-1"}, 400, HEADER),
    ("header length beyond the body", binary()[0], {HEADER: "100000"}, 400, HEADER),
    ("header length absurd", binary()[0], {HEADER: "9" * 5000}, 400, HEADER),
    ("header length absurd behind zeros", binary()[0], {HEADER: "0" * 20 + "9" * 4400}, 400, HEADER),
    ("header length beyond the body behind zeros", binary()[0], {HEADER: "0" * 20 + "100000"}, 400, HEADER),
    ("header length inside the JSON", binary()[0], {HEADER: "5"}, 400, "body"),
    ("no header length", binary()[0], {}, 400, "body"),
    ("first size too small", binary((20, 20))[0], {HEADER: str(LENGTH)}, 400, "inputs[0].parameters.binary_data_size"),
    ("last size beyond the body", binary((24, 99))[0], {HEADER: str(LENGTH)}, 400, "inputs[1].parameters.binary_data_size"),
    ("bytes left over", binary(data=bytes(48))[0], {HEADER: str(LENGTH)}, 400, "inputs"),
    ("bytes missing", binary(data=bytes(30))[0], {HEADER: str(LENGTH)}, 400, "inputs[1].parameters.binary_data_size"),
    ("broken gzip", b"no gzip at all", {"Content-Encoding": "gzip"}, 400, "body"),
    ("gzip without its trailer", PACKED[:-8], {"Content-Encoding": "gzip"}, 400, "body"),
    ("gzip without its last byte", PACKED[:-1], {"Content-Encoding": "gzip"}, 400, "body"),
    ("gzip whose second member is cut", PACKED + gzip.compress(b" ")[:-3], {"Content-Encoding": "gzip"}, 400, "body"),
    ("gzip with another checksum", PACKED[:-8] + bytes(4) + PACKED[-4:], {"Content-Encoding": "gzip"}, 400, "body"),
    ("gzip with bytes behind it", PACKED + b"more", {"Content-Encoding": "gzip"}, 400, "body"),
    ("deflate without its checksum", zlib.compress(json.dumps(good()).encode())[:-4], {"Content-Encoding": "deflate"}, 400, "body"),
    ("deflate too large when decompressed", zlib.compress(bytes(2**24)), {"Content-Encoding": "deflate"}, 413, "Content-Length"),
    ("unknown coding", b"{}", {"Content-Encoding": "br"}, 415, "Content-Encoding"),
    ("too large by its length", bytes(2**20 + 1), {}, 413, "Content-Length"),
    ("too large when decompressed", gzip.compress(bytes(2**24)), {"Content-Encoding": "gzip"}, 413, "Content-Length"),
    ("timeout header is a word", json.dumps(good()).encode(), {"X-Request-Timeout-Ms": "soon"}, 400, "X-Request-Timeout-Ms"),
    ("timeout header is zero", json.dumps(good()).encode(), {"X-Request-Timeout-Ms": "0"}, 400, "X-Request-Timeout-Ms"),
    ("timeout header is absurd behind zeros", json.dumps(good()).encode(), {"X-Request-Timeout-Ms": "0" * 19 + "1" + "0" * 400}, 400, "X-Request-Timeout-Ms"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [case[1:] for case in BINARY_CASES],
    ids=[case[0] for case in BINARY_CASES],
)
async def test_wrong_bytes_are_rejected_with_the_field(
    pod: Any, body: bytes, headers: dict[str, str], status: int, field: str
) -> None:
    url = f"{pod.url}/v2/models/halves/infer"
    async with pod.session.post(url, data=io.BytesIO(body), headers=headers) as reply:
        answer = await reply.json()
        assert (reply.status, answer["field"]) == (status, field), answer
    assert pod.pod.counters.settled() == pod.pod.counters.received == 1


@pytest.mark.parametrize(
    ("method", "path", "status", "field"),
    [
        ("POST", "/v2/models/other/infer", 404, "model"),
        ("GET", "/v2/models/other", 404, "model"),
        ("GET", "/v2/models/other/ready", 404, "model"),
        ("POST", "/v2/models/halves/versions/2/infer", 404, "version"),
        ("GET", "/v2/models/halves/versions/x", 404, "version"),
        ("GET", "/v2/models/halves/infer", 405, None),
        ("DELETE", "/v2/models/halves", 405, None),
        ("GET", "/nowhere", 404, None),
        ("GET", "/control/v1/state", 404, None),
    ],
)
async def test_a_wrong_path_or_method_has_an_error_key(
    pod: Any, method: str, path: str, status: int, field: str | None
) -> None:
    async with pod.session.request(method, pod.url + path) as reply:
        answer = await reply.json()
        assert (reply.status, answer.get("field")) == (status, field)
        assert answer["error"]


async def test_more_rows_than_the_envelope_are_rejected(
    pod: Any, call: Callable[..., Body]
) -> None:
    async with await pod.infer(call(rows=4097)) as reply:
        answer = await reply.json()
    assert (reply.status, answer["field"]) == (400, "inputs[0].shape")
    assert "4096" in answer["error"]


async def test_a_body_rejected_by_its_length_is_never_read(pod: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    writer.write(
        b"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 9999999\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"Connection: close" in head


async def test_a_slow_body_gives_its_credit_back(start: Any, until: Any) -> None:
    pod = await start(body_timeout_seconds=0.2)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    writer.write(
        b"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{"
    )
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    writer.close()
    await until(pod.pod.admission.empty)
    assert pod.pod.counters.rejected == {"BodyTimeout": 1}


async def test_the_batch_mates_of_bad_requests_are_served(
    pod: Any, call: Callable[..., Body], until: Any
) -> None:
    pod.model.gate.clear()
    first = asyncio.create_task(pod.infer(call(value=8)))
    await until(lambda: pod.pod.admission.load().running == 1)
    mates = [asyncio.create_task(pod.infer(call(value=float(n)))) for n in range(4)]
    bad = [asyncio.create_task(pod.infer(body)) for _, body, _ in JSON_CASES[:20]]
    replies = await asyncio.gather(*bad)
    assert {reply.status for reply in replies} == {400}
    pod.model.gate.set()
    answers = [await (await task).json() for task in (first, *mates)]
    assert [answer["outputs"][0]["data"][0] for answer in answers] == [4, 0, 0.5, 1, 1.5]
    assert pod.model.batches[-1] == 4
    assert pod.pod.counters.rejected["BadInput"] == 20


async def test_a_client_that_expects_a_100_gets_it(pod: Any) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    body = json.dumps(good()).encode()
    head = f"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Expect: 100-continue\r\n\r\n".encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    writer.write(body)
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    writer.close()


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length : 5\r\n",
    ],
)
async def test_a_framing_that_could_smuggle_gets_one_answer_and_a_closed_connection(
    pod: Any, framing: bytes
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(pod.url.rsplit(":", 1)[1]))
    hidden = b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n"
    writer.write(
        b"POST /v2/models/halves/infer HTTP/1.1\r\nHost: a\r\n"
        + framing
        + b"\r\n0\r\n\r\n"
        + hidden
    )
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    assert answer.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    assert answer.count(b"HTTP/1.") == 1
    assert pod.pod.counters.settled() == pod.pod.counters.received
