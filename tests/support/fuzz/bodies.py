"""Request bodies of `infer` and of embeddings: valid ones, and ones with faulty values, bytes or framing."""

import json
import struct
from random import Random
from typing import Any

from penstock_runtime.engine.model import ModelInfo, TensorSpec
from tests.support.fuzz.texts import damage, dumped, spoil

LONE = [
    ModelInfo("lone", "p", "cpu", (spec,), (TensorSpec("Y", "FP32", (-1, 2)),), 8)
    for spec in (
        TensorSpec("X", "INT32", (-1, -1)),
        TensorSpec("X", "FP64", (-1, 3)),
        TensorSpec("X", "FP32", (-1, -1, 2)),
    )
]
PACKED = {"FP32": "f", "FP64": "d", "INT32": "i", "INT64": "q", "BOOL": "?"}
Body = tuple[bytes, str | None]
"""The request body, and the length of its JSON part if binary tensors follow."""


def numbers(spec: TensorSpec, size: int, draw: Random) -> list[Any]:
    if spec.datatype == "BOOL":
        return [draw.random() < 0.5 for _ in range(size)]
    if spec.datatype.startswith("FP"):
        return [draw.choice((0, 1.5, -2.25, 1e30, 7, draw.random())) for _ in range(size)]
    return [
        draw.randrange(9) if spec.values else draw.choice((0, 1, -3, 2**31 - 1))
        for _ in range(size)
    ]


def tensor(spec: TensorSpec, rows: int, draw: Random) -> dict[str, Any]:
    shape = [rows, *(draw.randint(1, 3) if n == -1 else n for n in spec.shape[1:])]
    size = 1
    for dimension in shape:
        size *= dimension
    return {
        "name": spec.name,
        "datatype": spec.datatype,
        "shape": shape,
        "data": numbers(spec, size, draw),
    }


MORE: list[dict[str, Any]] = [
    {}, {}, {"id": "a"}, {"parameters": {"priority": 2, "timeout": 9_000_000}}, {"outputs": [{"name": "Y"}]},
    {"outputs": [{"name": "Y", "parameters": {"binary_data": True}}]}, {"parameters": {"binary_data_output": True}},
    {"id": "\u00e9", "parameters": {}},
]  # fmt: skip


def tree_of(model: ModelInfo, draw: Random) -> dict[str, Any]:
    """Return a valid body."""
    rows = draw.choice((1, 1, 1, 2, 3))
    inputs = [tensor(spec, rows, draw) for spec in model.inputs]
    if len(inputs) > 1 and draw.random() < 0.2:
        inputs.reverse()
    return {"inputs": inputs, **json.loads(json.dumps(draw.choice(MORE)))}


def packed(tree: dict[str, Any]) -> bytes:
    """Remove the data from a valid body and return it in the binary form that follows the JSON."""
    data = b""
    for entry in tree["inputs"]:
        listed = entry.pop("data")
        code = PACKED.get(entry["datatype"])
        if code is None:
            return data
        own = struct.pack(f"<{len(listed)}{code}", *listed)
        entry["parameters"] = {"binary_data_size": len(own)}
        data += own
    return data


def body_of(tree: dict[str, Any], draw: Random) -> Body:
    """Return a body that is valid, or faulty in its values, its bytes or its framing."""
    behind = packed(tree) if draw.random() < 0.2 else None
    if draw.random() < 0.6:
        spoil(tree, draw)
    text = dumped(tree, draw)
    if draw.random() < 0.5:
        text = damage(text, draw)
    if behind is None:
        return text, None
    length = len(text) + draw.choice((0, 0, 0, 0, 0, 1, -1, 400, -len(text)))
    if draw.random() < 0.2:
        behind = damage(behind, draw)
    return text + behind, str(max(length, 0))


def text_tree(draw: Random) -> dict[str, Any]:
    """Return a body of texts for an encoder, or of their tokens."""
    if draw.random() < 0.5:
        rows = draw.randint(1, 3)
        data = [draw.choice(("w1", "w2 w3", "\u00e9", "")) for _ in range(rows)]
        text_input = {"name": "text", "datatype": "BYTES", "shape": [rows], "data": data}
        return {
            "inputs": [text_input],
            **draw.choice(({}, {"parameters": {"truncate": True}}, {"id": "a"})),
        }
    rows, long = draw.randint(1, 3), draw.randint(1, 5)
    size = rows * long
    ids = {"name": "input_ids", "datatype": "INT64", "shape": [rows, long], "data": [5] * size}
    marks = {
        "name": "attention_mask",
        "datatype": "INT64",
        "shape": [rows, long],
        "data": [1] * size,
    }
    return {"inputs": [ids, marks]}


def text_body(draw: Random) -> Body:
    """Return a body for an encoder, whose input may contain escapes or follow the JSON in binary form."""
    tree = text_tree(draw)
    if tree["inputs"][0]["name"] == "text" and draw.random() < 0.3:
        text_input = tree["inputs"][0]
        behind = b"".join(
            struct.pack("<i", len(t.encode())) + t.encode() for t in text_input.pop("data")
        )
        text_input["parameters"] = {"binary_data_size": len(behind)}
        text = dumped(spoil(tree, draw) if draw.random() < 0.5 else tree, draw)
        return text + (damage(behind, draw) if draw.random() < 0.5 else behind), str(len(text))
    text, length = (
        body_of(tree, draw) if "data" in tree["inputs"][0] else (dumped(tree, draw), None)
    )
    if draw.random() < 0.1:
        text = text.replace(b'"text"', draw.choice((b'"te\\u0078t"', b'"\\u0074ext"', b'"text "')))
    return text, length


def embedding_body(draw: Random) -> bytes:
    """Return an embeddings request, valid or faulty."""
    given = draw.choice(("w1", ["w1", "w2 w3"], [2, 5, 3], [[2, 5, 3], [2, 3]]))
    tree = json.loads(json.dumps({"input": given}))
    for field, value in {
        "model": "texts", "encoding_format": "base64", "truncate_prompt_tokens": -1, "priority": 2, "timeout": 9.5,
        "dimensions": 8, "user": "me",
    }.items():  # fmt: skip
        if draw.random() < 0.3:
            tree[field] = value
    text = dumped(spoil(tree, draw) if draw.random() < 0.8 else tree, draw)
    return damage(text, draw) if draw.random() < 0.3 else text
