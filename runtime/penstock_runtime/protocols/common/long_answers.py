"""Rendering of answers that are too long for one step: in a thread, and piece by piece."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import orjson
from aiohttp import payload
from aiohttp.abc import AbstractStreamWriter
from typing_extensions import override

from penstock_runtime.request import Completed, Tensor

LONG_BYTES: Final = 2**18
"""The size of outputs above which an answer is long; rendering them as JSON takes some 10 ms."""
PIECE_NUMBERS: Final = 2**15
_COPIED_BYTES: Final = 2**20
_DEPTH: Final = 4
_PIECE_VALUES: Final = 256

Body = bytes | memoryview
Result = TypeVar("Result")


def is_long(end: Completed) -> bool:
    """Return whether the answer to `end` is rendered in a thread."""
    return sum(output.nbytes for output in end.outputs.values()) > LONG_BYTES


async def to_thread_if_long(work: Callable[[], Result], *, long: bool) -> Result:
    """Return the result of `work`, which runs in a thread if it takes long."""
    return await asyncio.to_thread(work) if long else work()


def joined(parts: Sequence[Body]) -> Body:
    """Return the concatenated `parts`; many bytes are copied in steps, into memory that is not cleared first."""
    total = sum(map(len, parts))
    if total <= _COPIED_BYTES:
        return b"".join(parts)
    whole: memoryview = np.empty(total, np.uint8).data
    at = 0
    for part in parts:
        for start in range(0, len(part), _COPIED_BYTES):
            piece = part[start : start + _COPIED_BYTES]
            whole[at : at + len(piece)] = piece
            at += len(piece)
    return whole


def pieces_of(array: Tensor) -> Iterator[Tensor]:
    """Yield the elements of a tensor, row-major, in flat pieces."""
    flat = array.reshape(-1)
    for start in range(0, len(flat), PIECE_NUMBERS):
        yield flat[start : start + PIECE_NUMBERS]


def json_of(value: Any) -> Body:
    """Return `value` as JSON; no step renders more than some hundred elements of its lists."""
    parts: list[Body] = []
    _write(value, parts, _DEPTH)
    return joined(parts)


def _write(value: Any, parts: list[Body], depth: int) -> None:
    if depth and type(value) is dict:
        for index, (name, member) in enumerate(value.items()):
            parts.append(b"%b%b:" % (b"," if index else b"{", orjson.dumps(name)))
            _write(member, parts, depth - 1)
        parts.append(b"}" if value else b"{}")
    elif depth and type(value) is list and 0 < len(value) <= _PIECE_VALUES:
        for index, element in enumerate(value):
            parts.append(b"," if index else b"[")
            _write(element, parts, depth - 1)
        parts.append(b"]")
    elif type(value) is list and value:
        for start in range(0, len(value), _PIECE_VALUES):
            parts += (
                b"," if start else b"[",
                orjson.dumps(value[start : start + _PIECE_VALUES])[1:-1],
            )
        parts.append(b"]")
    else:
        parts.append(orjson.dumps(value))


class LongBody(payload.Payload):
    """A body that is not copied: aiohttp joins the first write with the head, so the first write is one byte."""

    def __init__(self, value: memoryview) -> None:
        super().__init__(value)
        self._size = len(value)

    @override
    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return bytes(self._value).decode(encoding, errors)

    @override
    async def write(self, writer: AbstractStreamWriter) -> None:
        await writer.write(self._value[:1])
        await writer.write(self._value[1:])
