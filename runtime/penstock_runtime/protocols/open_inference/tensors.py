"""Conversion of tensor data, JSON or binary, to arrays."""

from itertools import chain
from math import prod
from typing import Any

import numpy as np

from penstock_runtime.engine.datatypes import numpy_dtype
from penstock_runtime.errors import BadInput, shown
from penstock_runtime.protocols.common.json_structure import Numbers
from penstock_runtime.protocols.open_inference.bodies import load_json
from penstock_runtime.request import Tensor


def from_json(data: Any, datatype: str, shape: tuple[int, ...], field: str) -> Tensor:
    """Return the array of `shape` from JSON `data` in row-major order, flat or nested as `shape` is.

    Raises:
        BadInput: `data` is not a list, is ragged, has another shape or length, or an element of another type or range.
    """
    if type(data) is Numbers:
        flat: list[Any] = [data]
        nesting: tuple[int, ...] = (len(data),)
    elif type(data) is list:
        flat, nesting = _flatten(data, field)
    else:
        raise BadInput(f"`data` must be a list, got {_kind(data)}", field=field)
    pieced = bool(flat) and type(flat[0]) in (list, Numbers)
    size = sum(map(len, flat)) if pieced else len(flat)
    if len(nesting) > 1 and nesting != shape:
        raise BadInput(
            f"`data` is nested as {list(nesting)}, but `shape` is {list(shape)}: make them equal, or send flat data",
            field=field,
        )
    if size != prod(shape):
        raise BadInput(
            f"`data` holds {size} elements, but shape {list(shape)} takes {prod(shape)}: send as many",
            field=field,
        )
    if pieced:
        return _from_pieces(flat, datatype, shape, field)
    _check_types(flat, datatype, field)
    return _array(flat, datatype, field).reshape(shape)


def _from_pieces(
    rows: list[list[Any] | Numbers], datatype: str, shape: tuple[int, ...], field: str
) -> Tensor:
    array = np.empty(prod(shape), numpy_dtype(datatype))
    at = 0
    for row in rows:
        pieces = map(load_json, row.pieces()) if isinstance(row, Numbers) else [row]
        for flat in pieces:
            _check_types(flat, datatype, field, at)
            array[at : at + len(flat)] = _array(flat, datatype, field)
            at += len(flat)
    if at != len(array):
        raise BadInput(
            f"`data` holds {at} elements, but shape {list(shape)} takes {len(array)}: send as many",
            field=field,
        )
    return array.reshape(shape)


def from_bytes(data: memoryview, datatype: str, shape: tuple[int, ...], field: str) -> Tensor:
    """Return the array of `shape` over little-endian `data`, without a copy where the data are aligned.

    Raises:
        BadInput: the size does not match the shape, or a BOOL is neither 0 nor 1.
    """
    expected = prod(shape) * numpy_dtype(datatype).itemsize
    if len(data) != expected:
        raise BadInput(
            f"`binary_data_size` is {len(data)}, but shape {list(shape)} of {datatype} takes {expected} bytes",
            field=field,
        )
    if datatype == "BOOL" and bool((np.frombuffer(data, np.uint8) > 1).any()):
        raise BadInput("a BOOL must be the byte 0 or 1", field=field)
    array = np.frombuffer(data, dtype=numpy_dtype(datatype).newbyteorder("<")).reshape(shape)
    return array if array.flags.aligned else array.copy()


def _flatten(data: list[Any], field: str) -> tuple[list[Any], tuple[int, ...]]:
    level, nesting = data, [len(data)]
    while level and type(level[0]) in (list, Numbers):
        lengths = {len(row) if type(row) in (list, Numbers) else -1 for row in level}
        if len(lengths) != 1 or -1 in lengths:
            raise BadInput("`data` is ragged: send as many elements in each row", field=field)
        nesting.append(lengths.pop())
        if any(type(row) is Numbers for row in level):
            break
        level = list(chain.from_iterable(level))
    return level, tuple(nesting)


def _check_types(flat: list[Any], datatype: str, field: str, before: int = 0) -> None:
    wrong = set(map(type, flat)) - _json_types(datatype)
    if wrong:
        at, value = next((i, value) for i, value in enumerate(flat) if type(value) in wrong)
        raise BadInput(
            f"element {before + at} of `data` is {_kind(value)}, not {datatype}: send numbers of that type",
            field=field,
        )


def _array(flat: list[Any], datatype: str, field: str) -> Tensor:
    try:
        if not datatype.startswith("FP"):
            return np.array(flat, dtype=numpy_dtype(datatype))
        wide = np.array(flat, dtype=np.float64)
        with np.errstate(over="ignore"):
            narrow = wide.astype(numpy_dtype(datatype))
    except OverflowError as error:
        raise BadInput(
            f"an element of `data` is out of range for {datatype}: {error}", field=field
        ) from error
    if bool((np.isinf(narrow) & np.isfinite(wide)).any()):
        raise BadInput(f"an element of `data` is out of range for {datatype}", field=field)
    return narrow


def _json_types(datatype: str) -> frozenset[type]:
    if datatype == "BOOL":
        return frozenset((bool,))
    return frozenset((int, float)) if datatype.startswith("FP") else frozenset((int,))


def _kind(value: Any) -> str:
    names = {
        str: "a string",
        bool: "a boolean",
        type(None): "null",
        dict: "an object",
        list: "a list",
    }
    return names.get(
        type(value),
        f"the number {shown(value)}" if isinstance(value, int | float) else "not a number",
    )
