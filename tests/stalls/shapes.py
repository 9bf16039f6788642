"""Request bodies of a given size that cost most to read, validate or answer."""

import gzip
import json
from bisect import bisect
from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import astuple

from penstock_runtime.errors import BadInput
from penstock_runtime.http.fast_path.connection import MAX_COLLECTED_BYTES
from penstock_runtime.protocols.common.json_structure import (
    BUDGET_NANOSECONDS,
    PLAIN,
    TYPED,
    Prices,
    Structure,
    structure_of,
)

BINARY = "Inference-Header-Content-Length"
EMPTY = {"deflate": b"\x03\x00", "gzip": gzip.compress(b"", mtime=0)}
"""A member without content, by coding."""
MAX_TEXT = int(0.95 * BUDGET_NANOSECONDS / TYPED.byte)
"""Bytes of texts that leave a part of the limit for the structure of one body."""


class RequestShape(NamedTuple):
    """A body and its headers."""

    name: str
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012 - of a named tuple, never changed
    hostile: bool = False
    """Whether it may have more parts than the limit for one body."""


def most(before: str, unit: str, after: str, prices: Prices) -> int:
    """Return how many units with commas between are within the limit for one body, less 1 %: each piece rounds up."""
    texts = (before + unit + after, f"{before}{unit},{unit}{after}")
    once, twice = (astuple(structure_of(text.encode(), prices))[:-1] for text in texts)

    def over(count: int) -> bool:
        parts = (
            first + (count - 1) * (second - first)
            for first, second in zip(once, twice, strict=True)
        )
        try:
            Structure(*parts).check(prices, [])
        except BadInput:
            return True
        return False

    return int(0.99 * bisect(range(1, 2**24), False, key=over))


def filled(  # noqa: PLR0917 - a table of them is read by columns
    name: str,
    size: int,
    before: str,
    unit: str,
    after: str,
    at_most: int = 2**40,
    prices: Prices | None = TYPED,
) -> RequestShape:
    """Return a body of `size` bytes: as many units with commas between as fit and as the limit for one body allows."""
    count = min((size - len(before) - len(after) + 1) // (len(unit) + 1), at_most)
    if prices:
        count = min(count, most(before, unit, after, prices))
    return RequestShape(name, (before + ",".join([unit] * count) + after).encode())


def hostile(size: int) -> list[RequestShape]:
    """Return invalid bodies for any route, which are read before they are rejected."""
    shapes = [
        RequestShape("brackets", b"[" * size),
        filled("lists", size, '{"x":[', "[]", "]}", prices=None),
        filled("objects", size, '{"x":[', "{}", "]}", prices=None),
        filled("empty texts", size, '{"x":[', '""', "]}", prices=None),
        filled("numbers", size, '{"x":[', "1", "]}", prices=None),
        RequestShape(
            "names", b"{%b}" % b",".join(b'"%07d":1' % number for number in range(size // 12))
        ),
        RequestShape("escapes", b'{"x":"%b"}' % (b"\\u00e9" * (size // 6 - 2))),
        RequestShape("a text", b'{"x":"%b"}' % (b"a" * (size - 8))),
        *(_members(coding, member, size) for coding, member in EMPTY.items()),
    ]
    return [shape._replace(hostile=True) for shape in shapes]


def _members(coding: str, member: bytes, size: int) -> RequestShape:
    body = member * (size // len(member))
    return RequestShape(f"empty {coding} members", body, {"Content-Encoding": coding})


def gzipped(shape: RequestShape) -> RequestShape:
    """Return the shape with a compressed body."""
    body = gzip.compress(shape.body, 1)
    return RequestShape(f"{shape.name}, gzip", body, {**shape.headers, "Content-Encoding": "gzip"})


def _with_length(shapes: Callable[[int], list[RequestShape]], size: int) -> list[RequestShape]:
    """Return JSON bodies, and those that the fast path would collect as binary data: their heads give their length."""
    short = shapes(min(size, MAX_COLLECTED_BYTES))
    return [
        *shapes(size),
        *(
            RequestShape(f"{name}, with its length", body, {BINARY: str(len(body))})
            for name, body, *_ in short
        ),
    ]


def tensor(size: int) -> list[RequestShape]:
    """Return inference requests for the model of `wide`."""
    return [*_with_length(_numbers, size), *_binary(size)]


def _numbers(size: int) -> list[RequestShape]:
    head = '{"inputs":[{"name":"X","datatype":"FP32","shape":[%s],"data":[%s'
    short = (size - 100) // 2
    long = (size - 100) // 20
    row = (size - 100) // 4096 // 2 - 2
    return [
        RequestShape("short numbers", (head % (f"1,{short}", ",".join(["1"] * short)) + "]}]}").encode()),
        RequestShape("long numbers", (head % (f"1,{long}", ",".join(["0.1234567890123456"] * long)) + "]}]}").encode()),
        RequestShape("nested rows", (head % (f"4096,{row}", ",".join(["[" + ",".join(["1"] * row) + "]"] * 4096)) + "]}]}").encode()),
        RequestShape("a wrong number at the end", (head % (f"1,{short}", ",".join(["1"] * (short - 2))) + ',null]}]}').encode()),
    ]  # fmt: skip


def _binary(size: int) -> list[RequestShape]:
    cells = (size // 4 - 100) // 5 * 5
    binary = json.dumps(
        {
            "inputs": [
                {
                    "name": "X", "datatype": "FP32", "shape": [1, cells],
                    "parameters": {"binary_data_size": 4 * cells},
                }
            ]
        }
    ).encode()  # fmt: skip
    as_binary = binary.replace(b'{"inputs"', b'{"parameters":{"binary_data_output":true},"inputs"')
    numbers = bytes(range(40, 60)) * (cells // 5)
    return [
        RequestShape("binary", binary + numbers[: 4 * cells], {BINARY: str(len(binary))}),
        RequestShape("binary both ways", as_binary + numbers[: 4 * cells], {BINARY: str(len(as_binary))}),
    ]  # fmt: skip


def texts(size: int) -> list[RequestShape]:
    """Return inference requests of texts."""
    return _with_length(_texts, size)


def _texts(size: int) -> list[RequestShape]:
    head = '{"inputs":[{"name":"text","datatype":"BYTES","shape":[%d],"data":['
    text = min(size, MAX_TEXT)
    return [
        filled("empty texts", size, head % 1, '""', "]}]}", prices=PLAIN),
        filled("words", size, head % 4096, '"' + "w1 " * (text // 4096 // 3 - 4) + '"', "]}]}", 4096, PLAIN),
        filled("a long text", size, head % 1, '"' + "w1 " * (text // 3 - 40) + '"', "]}]}", 1, PLAIN),
    ]  # fmt: skip


def embeddings(size: int) -> list[RequestShape]:
    """Return requests for embeddings."""
    return _with_length(_embeddings, size)


def _embeddings(size: int) -> list[RequestShape]:
    text = min(size, MAX_TEXT)
    return [
        filled("ids", size, '{"input":[', "1", "]}", prices=PLAIN),
        filled("lists of ids", size, '{"input":[', "[1]", "]}", prices=PLAIN),
        filled("words", size, '{"input":[', '"' + "w1 " * (text // 2048 // 3 - 4) + '"', "]}", 2048, PLAIN),
        filled("texts of 64 tokens", size, '{"input":[', '"' + "w1 " * 60 + '"', "]}", 2048, PLAIN),
    ]  # fmt: skip


def completions(size: int) -> list[RequestShape]:
    """Return completions."""
    text = min(size, MAX_TEXT) - 20
    biases = min(size // 12 - 8, most('{"logit_bias":{', '"x000000":1', "}}", TYPED))
    echoed = {"echo": True, "logprobs": 20, "max_tokens": 1}
    return [
        RequestShape("a text", b'{"prompt":"%b"}' % (b"a" * text)),
        RequestShape("texts", b'{"prompt":[%b]}' % b",".join([b'"%b"' % (b"a " * (text // 256 - 2))] * 128)),
        filled("short texts", size, '{"max_tokens":1,"prompt":[', '"' + "q" * 900 + '"', "]}", 60),
        filled("ids", size, '{"prompt":[', "1", "]}"),
        RequestShape("wrong biases", b'{"prompt":"a","logit_bias":{%b}}' % b",".join(b'"x%06d":1' % number for number in range(biases))),
        filled("lists of ids", size, '{"prompt":[', "[" + ",".join("1" * 900) + "]", "]}", 64),
        RequestShape("most ids echoed", json.dumps({**echoed, "prompt": [[5] * 900] * 32}).encode()),
        RequestShape("the same, streamed", json.dumps({**echoed, "prompt": [[5] * 900] * 32, "stream": True}).encode()),
        RequestShape("more ids echoed", json.dumps({**echoed, "prompt": [[5] * 900] * 128}).encode()),
    ]  # fmt: skip


def chats(size: int) -> list[RequestShape]:
    """Return conversations."""
    tool = '{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{%s}}}}'
    properties = min(size // 128 // 25, most("", '"p00":{"type":"string"}', "", TYPED) // 128)
    names = ",".join(f'"p{number}":{{"type":"string"}}' for number in range(properties))
    message = '{"messages":[{"role":"user","content":"a"}],"tools":['
    alternatives = {
        "messages": [{"role": "user", "content": "a"}],
        "n": 128, "logprobs": True, "top_logprobs": 20, "max_tokens": 64, "ignore_eos": True,
    }  # fmt: skip
    return [
        filled("messages", size, '{"messages":[', '{"role":"user"}', "]}", 8192),
        filled("more messages", size, '{"messages":[', '{"role":"user"}', "]}"),
        filled("parts", size, '{"messages":[{"role":"user","content":[', '{"type":"text","text":""}', "]}]}"),
        filled("wrong parts", size, '{"messages":[{"role":"user","content":[', "{}", "]}]}"),
        filled("calls", size, '{"messages":[{"role":"assistant","tool_calls":[', '{"function":{"name":""}}', "]}]}"),
        filled("tools", size, message, tool % names, "]}", 120),
        filled("wrong tools", size, message, "1", "]}"),
        RequestShape("a text", b'{"messages":[{"role":"user","content":"%b"}]}' % (b"a" * (min(size, MAX_TEXT) - 60))),
        RequestShape("most alternatives", json.dumps(alternatives).encode()),
        RequestShape("the same, streamed", json.dumps({**alternatives, "stream": True}).encode()),
    ]  # fmt: skip


def generate(size: int) -> list[RequestShape]:
    """Return requests of Triton's extension."""
    return [
        RequestShape("a text", b'{"text_input":"%b"}' % (b"a" * (min(size, MAX_TEXT) - 20))),
        filled("stop ids", size, '{"text_input":"a","parameters":{"stop_token_ids":[', "1", "]}}"),
    ]


def ids(size: int) -> list[RequestShape]:
    """Return lists of tokens."""
    return [
        filled("tokens", size, '{"tokens":[', "5", "]}"),
        filled("2^18 tokens", size, '{"tokens":[', "5", "]}", 2**18),
    ]


def continuations(size: int) -> list[RequestShape]:
    """Return generations that another pod began."""
    head = '{"identity":"","max_tokens":9,"seed":0,"stop_token_ids":[],'
    return [
        filled("prompt", size, head + '"resumed":[{"choice":0,"tokens":[]}],"prompt":[', "1", "]}"),
        filled("output", size, head + '"prompt":[1],"resumed":[{"choice":0,"tokens":[', "1", "]}]}"),
        filled("wrong output", size, head + '"prompt":[1],"resumed":[{"choice":0,"tokens":[', "-1", "]}]}"),
        filled("choices", size, head + '"prompt":[1],"resumed":[', '{"choice":0,"tokens":[]}', "]}"),
    ]  # fmt: skip
