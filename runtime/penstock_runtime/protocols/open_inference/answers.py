"""Outputs -> the bytes of an answer, JSON or JSON with binary tensors behind it."""

import gzip
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from penstock_runtime.models.base import ModelInfo
from penstock_runtime.protocols.open_inference.metadata import MODEL_VERSION
from penstock_runtime.protocols.open_inference.outputs import WantedOutput
from penstock_runtime.request import Tensor


@dataclass(frozen=True, slots=True)
class Answer:
    """A body; `header_length` is that of its JSON part, None where JSON is all of it."""

    body: bytes
    header_length: int | None


def render(
    id: str | None, outputs: dict[str, Tensor], wanted: Sequence[WantedOutput], model: ModelInfo
) -> Answer:
    """Return the answer to a call.

    A NaN or infinite number in JSON is written as `NaN`, `Infinity`, `-Infinity`, and is read so too: it
    is what Triton does (server#3870), and a null would not be a number. Clients with a strict parser ask
    for binary data.
    """
    datatypes = {spec.name: spec.datatype for spec in model.outputs}
    binary: list[bytes] = []
    rendered = [_output(one, outputs[one.name], datatypes[one.name], binary) for one in wanted]
    head: dict[str, Any] = {"model_name": model.name, "model_version": MODEL_VERSION}
    if id is not None:
        head["id"] = id
    text = orjson.dumps({**head, "outputs": rendered})
    if not any(one.binary for one in wanted):
        return Answer(text, None)
    return Answer(b"".join([text, *binary]), len(text))


def compress(body: bytes, coding: str) -> bytes:
    """Return `body` in `coding`, `gzip` or `deflate` (zlib's format, as RFC 9110 has it)."""
    return (
        gzip.compress(body, compresslevel=1) if coding == "gzip" else zlib.compress(body, level=1)
    )


def _output(
    wanted: WantedOutput, array: Tensor, datatype: str, binary: list[bytes]
) -> dict[str, Any]:
    head = {"name": wanted.name, "datatype": datatype, "shape": list(array.shape)}
    if wanted.binary:
        data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
        binary.append(data)
        return {**head, "parameters": {"binary_data_size": len(data)}}
    return {**head, "data": orjson.Fragment(_numbers(np.ascontiguousarray(array).reshape(-1)))}


def _numbers(flat: Tensor) -> bytes:
    if flat.dtype.kind == "f" and not bool(np.isfinite(flat).all()):
        return json.dumps(flat.tolist()).encode()
    return orjson.dumps(flat, option=orjson.OPT_SERIALIZE_NUMPY)
