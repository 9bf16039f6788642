"""Messages between two processes as bytes: one frame a send, pickled, its arrays in shared memory.

A frame is a header, the blocks of the other side that are handed back, the sizes of the arrays, the pickle
(protocol 5, PEP 574), and behind it the arrays themselves where they are small or no block was free. Both
ends are one program at one version, parent and child: nothing that a client sends is ever unpickled.
"""

import mmap
import pickle
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penstock_runtime.link.lending import Borrower, Lender, aligned

INLINE_BYTES = 4096
"""Below this a copy through the socket costs less than a block's book-keeping."""
_HEADER = struct.Struct("<QIIIq")
"""Bytes of the whole frame, of the pickle, how many arrays, how many blocks handed back, the block or -1."""
_INLINE = -1


class Frames:
    """One side's end: turns messages to frames and received bytes to messages."""

    def __init__(self, memory: mmap.mmap, mine: tuple[int, int]) -> None:
        """`mine` is where this side lends from: start and size within `memory`."""
        self._lender = Lender(memory, *mine)
        self._borrower = Borrower(memory)
        self._received = bytearray()

    @property
    def lent_bytes(self) -> int:
        """How much of this side's memory the other side still reads."""
        return self._lender.lent_bytes

    def encode(self, message: object) -> bytes:
        """Return the frame of `message`; its arrays are copied, so the caller's may change at once."""
        arrays: list[memoryview] = []
        head = pickle.dumps(
            message, protocol=5, buffer_callback=lambda one: arrays.append(one.raw())
        )
        sizes = [one.nbytes for one in arrays]
        place = self._place(arrays, sizes)
        given_back = self._borrower.done()
        parts = [
            struct.pack(f"<{len(given_back)}q{len(sizes)}q", *given_back, *sizes),
            head,
            *(arrays if place == _INLINE else ()),
        ]
        size = _HEADER.size + sum(len(one) for one in parts)
        header = _HEADER.pack(size, len(head), len(sizes), len(given_back), place)
        return b"".join((header, *parts))

    def _place(self, arrays: list[memoryview], sizes: list[int]) -> int:
        total = sum(aligned(size) for size in sizes)
        lent = self._lender.lend(total) if total >= INLINE_BYTES else None
        if lent is None:
            return _INLINE
        start, block = lent
        at = 0
        for one, size in zip(arrays, sizes, strict=True):
            block[at : at + size] = one
            at += aligned(size)
        return start

    def decode(self, data: bytes | memoryview) -> Iterator[Any]:
        """Take what was received and return the messages that are complete."""
        self._received += data
        while len(self._received) >= _HEADER.size:
            size = _HEADER.unpack_from(self._received)[0]
            if len(self._received) < size:
                return
            frame = self._received[:size]
            del self._received[:size]
            yield self._message(frame)

    def _message(self, frame: bytearray) -> Any:
        _, head_size, arrays, given_back, place = _HEADER.unpack_from(frame)
        at = _HEADER.size
        numbers = struct.unpack_from(f"<{given_back + arrays}q", frame, at)
        for start in numbers[:given_back]:
            self._lender.take_back(start)
        at += 8 * len(numbers)
        view = memoryview(frame)
        head, rest = view[at : at + head_size], view[at + head_size :]
        buffers = self._buffers(rest, place, numbers[given_back:])
        return pickle.loads(head, buffers=buffers)  # noqa: S301 - our own child or parent

    def _buffers(self, rest: memoryview, place: int, sizes: tuple[int, ...]) -> list[Any]:
        total = sum(aligned(size) for size in sizes)
        source = (
            _spread(rest, sizes, total) if place == _INLINE else self._borrower.borrow(place, total)
        )
        found, at = [], 0
        for size in sizes:
            found.append(source[at : at + size])
            at += aligned(size)
        return found


def _spread(packed: memoryview, sizes: tuple[int, ...], total: int) -> NDArray[np.uint8]:
    """Return arrays that followed their pickle, each moved to where its elements are aligned."""
    spread, start, at = np.empty(total, np.uint8), 0, 0
    for size in sizes:
        spread[at : at + size] = np.frombuffer(packed[start : start + size], np.uint8)
        start += size
        at += aligned(size)
    return spread
