"""Request bodies of a given size that cost most to read, validate or answer."""

import gzip
import json
from typing import NamedTuple

BINARY = "Inference-Header-Content-Length"


class RequestShape(NamedTuple):
    """A body and its headers."""

    name: str
    body: bytes
    headers: dict[str, str] = {}  # noqa: RUF012 - of a named tuple, never changed


def filled(  # noqa: PLR0917 - a table of them is read by columns
    name: str, size: int, before: str, unit: str, after: str, most: int = 2**40
) -> RequestShape:
    """Return a body of `size` bytes: as many units with commas between as fit, at most `most`."""
    count = min((size - len(before) - len(after) + 1) // (len(unit) + 1), most)
    return RequestShape(name, (before + ",".join([unit] * count) + after).encode())


def hostile(size: int) -> list[RequestShape]:
    """Return invalid bodies for any route, which are read before they are rejected."""
    return [
        RequestShape("brackets", b"[" * size),
        filled("lists", size, '{"x":[', "[]", "]}"),
        filled("objects", size, '{"x":[', "{}", "]}"),
        filled("empty texts", size, '{"x":[', '""', "]}"),
        filled("numbers", size, '{"x":[', "1", "]}"),
        RequestShape(
            "names", b"{%b}" % b",".join(b'"%07d":1' % number for number in range(size // 12))
        ),
        RequestShape("escapes", b'{"x":"%b"}' % (b"\\u00e9" * (size // 6 - 2))),
    ]


def gzipped(shape: RequestShape) -> RequestShape:
    """Return the shape with a compressed body."""
    body = gzip.compress(shape.body, 1)
    return RequestShape(f"{shape.name}, gzip", body, {**shape.headers, "Content-Encoding": "gzip"})


def tensor(size: int) -> list[RequestShape]:
    """Return inference requests for the model of `wide`."""
    head = '{"inputs":[{"name":"X","datatype":"FP32","shape":[%s],"data":[%s'
    short = (size - 100) // 2
    long = (size - 100) // 20
    row = (size - 100) // 4096 // 2 - 2
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
        RequestShape("short numbers", (head % (f"1,{short}", ",".join(["1"] * short)) + "]}]}").encode()),
        RequestShape("long numbers", (head % (f"1,{long}", ",".join(["0.1234567890123456"] * long)) + "]}]}").encode()),
        RequestShape("nested rows", (head % (f"4096,{row}", ",".join(["[" + ",".join(["1"] * row) + "]"] * 4096)) + "]}]}").encode()),
        RequestShape("a wrong number at the end", (head % (f"1,{short}", ",".join(["1"] * (short - 2))) + ',"x"]}]}').encode()),
        RequestShape("binary", binary + numbers[: 4 * cells], {BINARY: str(len(binary))}),
        RequestShape("binary both ways", as_binary + numbers[: 4 * cells], {BINARY: str(len(as_binary))}),
    ]  # fmt: skip


def texts(size: int) -> list[RequestShape]:
    """Return inference requests of texts."""
    head = '{"inputs":[{"name":"text","datatype":"BYTES","shape":[%d],"data":['
    return [
        filled("empty texts", size, head % 1, '""', "]}]}"),
        filled("words", size, head % 4096, '"' + "w1 " * (size // 4096 // 3 - 4) + '"', "]}]}", 4096),
        filled("a long text", size, head % 1, '"' + "w1 " * (size // 3 - 40) + '"', "]}]}", 1),
    ]  # fmt: skip


def embeddings(size: int) -> list[RequestShape]:
    """Return requests for embeddings."""
    return [
        filled("ids", size, '{"input":[', "1", "]}"),
        filled("lists of ids", size, '{"input":[', "[1]", "]}"),
        filled("words", size, '{"input":[', '"' + "w1 " * (size // 2048 // 3 - 4) + '"', "]}", 2048),
        filled("texts of 64 tokens", size, '{"input":[', '"' + "w1 " * 60 + '"', "]}", 2048),
    ]  # fmt: skip


def completions(size: int) -> list[RequestShape]:
    """Return completions."""
    text = size - 20
    echoed = {"echo": True, "logprobs": 20, "max_tokens": 1}
    return [
        RequestShape("a text", b'{"prompt":"%b"}' % (b"a" * text)),
        RequestShape("texts", b'{"prompt":[%b]}' % b",".join([b'"%b"' % (b"a " * (size // 256 - 2))] * 128)),
        filled("short texts", size, '{"max_tokens":1,"prompt":[', '"' + "q" * 900 + '"', "]}", 60),
        filled("ids", size, '{"prompt":[', "1", "]}"),
        RequestShape("wrong biases", b'{"prompt":"a","logit_bias":{%b}}' % b",".join(b'"x%06d":1' % number for number in range(size // 12 - 8))),
        filled("lists of ids", size, '{"prompt":[', "[" + ",".join("1" * 900) + "]", "]}", 64),
        RequestShape("most ids echoed", json.dumps({**echoed, "prompt": [[5] * 900] * 32}).encode()),
        RequestShape("the same, streamed", json.dumps({**echoed, "prompt": [[5] * 900] * 32, "stream": True}).encode()),
        RequestShape("more ids echoed", json.dumps({**echoed, "prompt": [[5] * 900] * 128}).encode()),
    ]  # fmt: skip


def chats(size: int) -> list[RequestShape]:
    """Return conversations."""
    tool = '{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{%s}}}}'
    names = ",".join(f'"p{number}":{{"type":"string"}}' for number in range(size // 128 // 25))
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
        RequestShape("a text", b'{"messages":[{"role":"user","content":"%b"}]}' % (b"a" * (size - 60))),
        RequestShape("most alternatives", json.dumps(alternatives).encode()),
        RequestShape("the same, streamed", json.dumps({**alternatives, "stream": True}).encode()),
    ]  # fmt: skip


def generate(size: int) -> list[RequestShape]:
    """Return requests of Triton's extension."""
    return [
        RequestShape("a text", b'{"text_input":"%b"}' % (b"a" * (size - 20))),
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
