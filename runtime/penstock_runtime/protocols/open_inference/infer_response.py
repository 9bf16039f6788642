"""Outputs -> the bytes of an answer, JSON or JSON with binary tensors behind it."""

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
    """A body; `header_length` is that of its JSON part, None where JSON is all of it."""

    body: bytes | memoryview
    header_length: int | None


def render(
    id: str | None, outputs: dict[str, Tensor], wanted: Sequence[RequestedOutput], model: ModelInfo
) -> InferBody:
    """Return the answer to a call.

    A NaN or infinite number in JSON is written as `NaN`, `Infinity`, `-Infinity`, and is read so too: it
    is what Triton does (server#3870), and a null would not be a number. Clients with a strict parser ask
    for binary data.
    """
    if id is None and len(wanted) == 1:
        name = wanted[0].name
        array = outputs[name]
        if wanted[0].binary:
            text = _whole_text(model.name, name, array.dtype.char, array.shape)
            return InferBody(joined((text, _little_endian(array))), len(text))
        start = _whole_start(model.name, name, array.dtype.char, array.shape)
        return InferBody(joined((start, *_numbers(array), b"}]}")), None)
    binary: list[Body] = []
    head: list[Body] = [_opening(model.name, id)]
    for place, one in enumerate(wanted):
        head += (b"," if place else b"", *_output(one, outputs[one.name], binary))
    head.append(b"]}")
    if not any(one.binary for one in wanted):
        return InferBody(joined(head), None)
    return InferBody(joined((*head, *binary)), sum(map(len, head)))


def compress(body: Body, coding: str) -> bytes:
    """Return `body` in `coding`, `gzip` or `deflate` (zlib's format, as RFC 9110 has it)."""
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


def _output(wanted: RequestedOutput, array: Tensor, binary: list[Body]) -> Sequence[Body]:
    described = _described(wanted.name, array.dtype, array.shape)
    if wanted.binary:
        data = _little_endian(array)
        binary.append(data)
        return (b'%b,"parameters":{"binary_data_size":%d}}' % (described, len(data)),)
    return (described, b',"data":', *_numbers(array), b"}")


@lru_cache(maxsize=1024)
def _whole_start(model: str, name: str, char: str, shape: tuple[int, ...]) -> bytes:
    """Return all of an answer of one JSON output up to its data; `char` is the dtype's."""
    return b'%b%b,"data":' % (_opening_without_id(model), _described(name, np.dtype(char), shape))


@lru_cache(maxsize=1024)
def _whole_text(model: str, name: str, char: str, shape: tuple[int, ...]) -> bytes:
    """Return the JSON of an answer of one binary output."""
    size = np.dtype(char).itemsize * prod(shape)
    described = _described(name, np.dtype(char), shape)
    sized = b'%b,"parameters":{"binary_data_size":%d}}]}' % (described, size)
    return _opening_without_id(model) + sized


def _little_endian(array: Tensor) -> Body:
    """Return the elements, row-major, as they lie behind the JSON."""
    if array.dtype.isnative and sys.byteorder == "little":
        if array.nbytes > LONG_BYTES and array.flags.c_contiguous:
            return array.reshape(-1).view(np.uint8).data
        return array.tobytes()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@lru_cache(maxsize=1024)
def _described(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return an output's JSON but for its data: the same for every answer of one shape."""
    head = {"name": name, "datatype": datatype_of(dtype), "shape": shape}
    return orjson.dumps(head)[:-1]


def _numbers(array: Tensor) -> Sequence[bytes]:
    """Return the elements, row-major, as one JSON list, in parts."""
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
        if len(shape) == 2 and shape[0] == 1:  # a lone row: as it is, but for a bracket
            text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        else:
            text = orjson.dumps(array.reshape(-1), option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        if array.flags.c_contiguous:
            raise
        return _list(np.ascontiguousarray(array))  # orjson takes no view of every other column
    if b"null" in text:  # how orjson writes what JSON lacks
        return json.dumps(array.reshape(-1).tolist()).encode()
    return text
