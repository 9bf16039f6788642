"""Answers too long to be written in one step: written as pieces in a thread, and put together piece by piece."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import orjson
from aiohttp import payload
from aiohttp.abc import AbstractStreamWriter

from penstock_runtime.request import Completed, Tensor

LONG_BYTES: Final = 2**18
"""Of outputs, which are written as JSON in some 10 ms."""
PIECE_NUMBERS: Final = 2**15
_COPIED_BYTES: Final = 2**20
_DEPTH: Final = 4
_PIECE_VALUES: Final = 256

Body = bytes | memoryview
Made = TypeVar("Made")


def is_long(end: Completed) -> bool:
    """Return whether the answer of `end` is to be written in a thread."""
    return sum(one.nbytes for one in end.outputs.values()) > LONG_BYTES


async def to_thread_if_long(work: Callable[[], Made], *, long: bool) -> Made:
    """Return what `work` makes; something long in a thread, which gives the event loop its turns."""
    return await asyncio.to_thread(work) if long else work()


def joined(parts: Sequence[Body]) -> Body:
    """Return `parts` as one; many bytes are copied in steps, into memory that is not cleared before."""
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
    """Return `value` as JSON; no step writes more than some hundred of its lists' elements."""
    parts: list[Body] = []
    _write(value, parts, _DEPTH)
    return joined(parts)


def _write(value: Any, parts: list[Body], depth: int) -> None:
    if depth and type(value) is dict:
        for place, (name, one) in enumerate(value.items()):
            parts.append(b"%b%b:" % (b"," if place else b"{", orjson.dumps(name)))
            _write(one, parts, depth - 1)
        parts.append(b"}" if value else b"{}")
    elif depth and type(value) is list and 0 < len(value) <= _PIECE_VALUES:
        for place, one in enumerate(value):
            parts.append(b"," if place else b"[")
            _write(one, parts, depth - 1)
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
    """A body that the transport takes as it is: what is written first, aiohttp copies behind the head."""

    def __init__(self, value: memoryview) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """As `Payload.decode`."""
        return bytes(self._value).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """As `Payload.write`."""
        await writer.write(self._value[:1])
        await writer.write(self._value[1:])
