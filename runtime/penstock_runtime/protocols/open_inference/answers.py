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

from penstock_runtime.models.base import ModelInfo
from penstock_runtime.models.datatypes import datatype_of
from penstock_runtime.protocols.open_inference.metadata import MODEL_VERSION
from penstock_runtime.protocols.open_inference.outputs import WantedOutput
from penstock_runtime.request import Tensor


class Answer(Struct, frozen=True, gc=False):
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
    if id is None and len(wanted) == 1:
        name = wanted[0].name
        array = outputs[name]
        if wanted[0].binary:
            text = _whole_text(model.name, name, array.dtype.char, array.shape)
            return Answer(text + _little_endian(array), len(text))
        start = _whole_start(model.name, name, array.dtype.char, array.shape)
        return Answer(b"%b%b}]}" % (start, _numbers(array)), None)
    binary: list[bytes] = []
    rendered = [_output(one, outputs[one.name], binary) for one in wanted]
    text = b"".join((_opening(model.name, id), b",".join(rendered), b"]}"))
    if not any(one.binary for one in wanted):
        return Answer(text, None)
    return Answer(b"".join((text, *binary)), len(text))


def compress(body: bytes, coding: str) -> bytes:
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


def _output(wanted: WantedOutput, array: Tensor, binary: list[bytes]) -> bytes:
    described = _described(wanted.name, array.dtype, array.shape)
    if wanted.binary:
        data = _little_endian(array)
        binary.append(data)
        return b'%b,"parameters":{"binary_data_size":%d}}' % (described, len(data))
    return b'%b,"data":%b}' % (described, _numbers(array))


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


def _little_endian(array: Tensor) -> bytes:
    """Return the elements, row-major, as they lie behind the JSON."""
    if array.dtype.isnative and sys.byteorder == "little":
        return array.tobytes()
    return array.astype(array.dtype.newbyteorder("<")).tobytes()


@lru_cache(maxsize=1024)
def _described(name: str, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> bytes:
    """Return an output's JSON but for its data: the same for every answer of one shape."""
    head = {"name": name, "datatype": datatype_of(dtype), "shape": shape}
    return orjson.dumps(head)[:-1]


def _numbers(array: Tensor) -> bytes:
    """Return the elements, row-major, as one JSON list."""
    shape = array.shape
    try:
        if len(shape) == 2 and shape[0] == 1:  # a lone row: as it is, but for a bracket
            text = orjson.dumps(array, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        else:
            text = orjson.dumps(array.reshape(-1), option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError:
        if array.flags.c_contiguous:
            raise
        return _numbers(np.ascontiguousarray(array))  # orjson takes no view of every other column
    if b"null" in text:  # how orjson writes what JSON lacks
        return json.dumps(array.reshape(-1).tolist()).encode()
    return text
