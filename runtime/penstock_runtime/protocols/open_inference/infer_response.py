"""Rendering of outputs as the body of an answer: JSON, or JSON followed by binary tensors."""

import gzip
import json
import sys
import zlib
from collections.abc import Sequence
from functools import cache, lru_cache
from math import prod

import numpy as np
import orjson
from msgspec import Struct

from penstock_runtime.engine.datatypes import datatype_of
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.protocols.common.long_answers import (
    LONG_BYTES,
    PIECE_NUMBERS,
    Body,
    joined,
    pieces_of,
)
from penstock_runtime.protocols.open_inference.metadata import MODEL_VERSION
from penstock_runtime.protocols.open_inference.outputs import RequestedOutput
from penstock_runtime.request import Tensor


class InferBody(Struct, frozen=True, gc=False):
    """A body; `header_length` is the length of its JSON part, None where all of it is JSON."""

    body: bytes | memoryview
    header_length: int | None


def render(
    id: str | None,
    outputs: dict[str, Tensor],
    requested: Sequence[RequestedOutput],
    model: ModelInfo,
) -> InferBody:
    """Return the body of the answer to a call.

    A NaN or infinite number is `NaN`, `Infinity` or `-Infinity` in JSON, in requests too, as in Triton (server#3870):
    null is not a number. Clients with a strict parser request binary data.
    """
    if id is None and len(requested) == 1:
        name = requested[0].name
        array = outputs[name]
        if requested[0].binary:
            text = _whole_text(model.name, name, array.dtype.char, array.shape)
            return InferBody(joined((text, _little_endian(array))), len(text))
        start = _whole_start(model.name, name, array.dtype.char, array.shape)
        return InferBody(joined((start, *_numbers(array), b"}]}")), None)
    binary: list[Body] = []
    head: list[Body] = [_opening(model.name, id)]
    for index, output in enumerate(requested):
        head += (b"," if index else b"", *_output(output, outputs[output.name], binary))
    head.append(b"]}")
    if not any(output.binary for output in requested):
        return InferBody(joined(head), None)
    return InferBody(joined((*head, *binary)), sum(map(len, head)))


def compress(body: Body, coding: str) -> bytes:
    """Return `body` compressed with `gzip` or `deflate` (zlib's format, as in RFC 9110)."""
    return (
        gzip.compress(body, compresslevel=1) if coding == "gzip" else zlib.compress(body, level=1)
    )


def _opening(model: str, id: str | None) -> bytes:
    if id is None:
        return _opening_without_id(model)
    head = {"model_name": model, "model_version": MODEL_VERSION, "id": id}
    return orjson.dumps(head)[:-1] + b',"outputs":['


@cache
def _opening_without_id(model: str) -> bytes:
    head = {"model_name": model, "model_version": MODEL_VERSION}
    return orjson.dumps(head)[:-1] + b',"outputs":['


def _output(output: RequestedOutput, array: Tensor, binary: list[Body]) -> Sequence[Body]:
    described = _described(output.name, array.dtype, array.shape)
    if output.binary:
        data = _little_endian(array)
        binary.append(data)
        return (b'%b,"parameters":{"binary_data_size":%d}}' % (described, len(data)),)
    return (described, b',"data":', *_numbers(array), b"}")


@lru_cache(maxsize=1024)
def _whole_start(model: str, name: str, char: str, shape: tuple[int, ...]) -> bytes:
    """Return an answer with one JSON output up to its data; `char` is that of the dtype."""
    return b'%b%b,"data":' % (_opening_without_id(model), _described(name, np.dtype(char), shape))


@lru_cache(maxsize=1024)
def _whole_text(model: str, name: str, char: str, shape: tuple[int, ...]) -> bytes:
    """Return the JSON of an answer with one binary output."""
    size = np.dtype(char).itemsize * prod(shape)
    described = _described(name, np.dtype(char), shape)
    sized = b'%b,"parameters":{"binary_data_size":%d}}]}' % (described, size)
    return _opening_without_id(model) + sized


def _little_endian(array: Tensor) -> Body:
    """Return the elements in row-major order, as they follow the JSON."""
    if array.dtype.isnative and sys.byteorder == "little":
        if array.nbytes > LONG_BYTES and array.flags.c_contiguous:
            return array.reshape(-1).view(np.uint8).data
        return array.tobytes()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@lru_cache(maxsize=1024)
def _described(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return an output's JSON without its data, the same for every answer of one shape."""
    head = {"name": name, "datatype": datatype_of(dtype), "shape": shape}
    return orjson.dumps(head)[:-1]


def _numbers(array: Tensor) -> Sequence[bytes]:
    """Return the elements in row-major order as the parts of one JSON list."""
    if array.size <= PIECE_NUMBERS:
        return (_list(array),)
    parts = [b"["]
    for piece in pieces_of(array):
        parts += (_list(piece)[1:-1], b",")
    parts[-1] = b"]"
    return parts


def _list(array: Tensor) -> bytes:
    shape = array.shape
    try:
        if len(shape) == 2 and shape[0] == 1:  # a single row: without the outer brackets
            text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        else:
            text = orjson.dumps(array.reshape(-1), option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        if array.flags.c_contiguous:
            raise
        return _list(np.ascontiguousarray(array))  # orjson accepts no strided view
    if b"null" in text:  # orjson's form of NaN and infinities
        return json.dumps(array.reshape(-1).tolist()).encode()
    return text
