"""`Frames`: messages between two processes as bytes, one pickled frame per send, with arrays in shared memory.

A frame contains a header, the freed blocks of the other side, the sizes of the arrays, the pickle (protocol 5,
PEP 574), and the arrays themselves where they are small or no block was free. Parent and child run the same
version of the program, and only their own frames are unpickled.
"""

import mmap
import pickle
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from penstock_runtime.engine.link.process.shared_memory import BlockAllocator, BlockReader, aligned

INLINE_BYTES = 4096
"""Size below which a copy through the socket is cheaper than allocating a block."""
LARGE_BYTES = 2**20
"""Size of arrays above which they are not copied in the event loop."""
_HEADER = struct.Struct("<QIIIq")
"""Size of the frame, size of the pickle, number of arrays, number of freed blocks, start of the block or -1."""
_INLINE = -1


class Frames:
    """One end: turns messages into frames and received bytes into messages."""

    def __init__(self, memory: mmap.mmap, mine: tuple[int, int]) -> None:
        """`mine` is the part of `memory` that this side allocates: start and size."""
        self._allocator = BlockAllocator(memory, *mine)
        self._reader = BlockReader(memory)
        self._received = bytearray()

    @property
    def allocated_bytes(self) -> int:
        """Bytes of this side's memory that the other side still reads."""
        return self._allocator.allocated_bytes

    def encode(self, message: object) -> bytes:
        """Return the frame of `message`; its arrays are copied, so the caller may modify them at once."""
        return self.begin(message).finish()

    def begin(self, message: object) -> "UnfinishedFrame":
        """Return the frame of `message` without its arrays, which another thread may copy."""
        arrays: list[memoryview] = []
        head = pickle.dumps(
            message, protocol=5, buffer_callback=lambda array: arrays.append(array.raw())
        )
        sizes = [array.nbytes for array in arrays]
        place, block = self._place(sizes)
        freed = self._reader.done()
        parts = [
            struct.pack(f"<{len(freed)}q{len(sizes)}q", *freed, *sizes),
            head,
            *(arrays if place == _INLINE else ()),
        ]
        size = _HEADER.size + sum(len(part) for part in parts)
        header = _HEADER.pack(size, len(head), len(sizes), len(freed), place)
        return UnfinishedFrame([header, *parts], block, arrays, sum(sizes))

    def _place(self, sizes: list[int]) -> tuple[int, memoryview | None]:
        total = sum(aligned(size) for size in sizes)
        block = self._allocator.allocate(total) if total >= INLINE_BYTES else None
        return (_INLINE, None) if block is None else block

    def decode(self, data: bytes | memoryview) -> Iterator[Any]:
        """Buffer received bytes, and yield the messages that are complete."""
        self._received += data
        while len(self._received) >= _HEADER.size:
            size = _HEADER.unpack_from(self._received)[0]
            if len(self._received) < size:
                return
            frame = self._received[:size]
            del self._received[:size]
            yield self._message(frame)

    def _message(self, frame: bytearray) -> Any:
        _, head_size, arrays, freed, place = _HEADER.unpack_from(frame)
        at = _HEADER.size
        numbers = struct.unpack_from(f"<{freed + arrays}q", frame, at)
        for start in numbers[:freed]:
            self._allocator.free(start)
        at += 8 * len(numbers)
        view = memoryview(frame)
        head, rest = view[at : at + head_size], view[at + head_size :]
        buffers = self._buffers(rest, place, numbers[freed:])
        return pickle.loads(head, buffers=buffers)  # noqa: S301 - our own child or parent

    def _buffers(self, rest: memoryview, place: int, sizes: tuple[int, ...]) -> list[Any]:
        total = sum(aligned(size) for size in sizes)
        source = (
            _spread(rest, sizes, total) if place == _INLINE else self._reader.read(place, total)
        )
        buffers, at = [], 0
        for size in sizes:
            buffers.append(source[at : at + size])
            at += aligned(size)
        return buffers


class UnfinishedFrame(NamedTuple):
    """A frame whose arrays are not copied yet."""

    parts: list[bytes | memoryview]
    block: memoryview | None
    """Memory of the arrays; None: they follow the pickle, among the parts."""
    arrays: list[memoryview]
    copied_bytes: int

    def finish(self) -> bytes:
        """Copy the arrays, without the GIL where they are large, and return the frame."""
        if self.block is not None:
            at = 0
            for array in self.arrays:
                _copy(array, self.block[at : at + array.nbytes])
                at += aligned(array.nbytes)
        return b"".join(self.parts)


def _copy(array: memoryview, place: memoryview) -> None:
    if array.nbytes > LARGE_BYTES:
        np.copyto(np.frombuffer(place, np.uint8), np.frombuffer(array, np.uint8))
    else:
        place[:] = array


def _spread(packed: memoryview, sizes: tuple[int, ...], total: int) -> NDArray[np.uint8]:
    """Return the arrays that follow the pickle, copied to aligned offsets."""
    spread, start, at = np.empty(total, np.uint8), 0, 0
    for size in sizes:
        spread[at : at + size] = np.frombuffer(packed[start : start + size], np.uint8)
        start += size
        at += aligned(size)
    return spread
