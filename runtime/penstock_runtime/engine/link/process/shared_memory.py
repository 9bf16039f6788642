"""Memory that two processes share: one side allocates blocks, the other reads them and reports when they are free.

It is an anonymous file (`memfd_create`), so its size does not depend on the container's `/dev/shm`, only pages
that were touched count as the pod's memory, and nothing is left behind.
"""

import mmap
import os
import threading
import weakref
from bisect import insort

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""Alignment of every block and array, a cache line: numpy and torch read aligned data faster."""


def aligned(size: int) -> int:
    """Return `size` rounded up to ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def create(size: int) -> int:
    """Return the descriptor of a new anonymous file of `size` bytes."""
    descriptor = os.memfd_create("penstock-link", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, size)
    return descriptor


class BlockAllocator:
    """Allocates blocks of one part of the memory: first fit from the lowest address, so that few pages are touched.

    Safe for threads: an engine allocates in one, and a block is freed in the one that receives.
    """

    def __init__(self, memory: mmap.mmap, start: int, size: int) -> None:
        self._memory = memoryview(memory)
        self._lock = threading.Lock()
        self._free = [(start, size)]
        self._allocated: dict[int, int] = {}

    @property
    def allocated_bytes(self) -> int:
        """Number of allocated bytes."""
        with self._lock:
            return sum(self._allocated.values())

    def allocate(self, size: int) -> tuple[int, memoryview] | None:
        """Return the start and the memory of a block; None while no gap is large enough."""
        size = max(ALIGNMENT, aligned(size))
        with self._lock:
            for index, (start, gap) in enumerate(self._free):
                if gap >= size:
                    rest = [(start + size, gap - size)] if gap > size else []
                    self._free[index : index + 1] = rest
                    self._allocated[start] = size
                    return start, self._memory[start : start + size]
        return None

    def free(self, start: int) -> None:
        """Free a block; raise KeyError if it is not allocated."""
        with self._lock:
            insort(self._free, (start, self._allocated.pop(start)))
            merged: list[tuple[int, int]] = []
            for begin, size in self._free:
                if merged and sum(merged[-1]) == begin:
                    merged[-1] = (merged[-1][0], merged[-1][1] + size)
                else:
                    merged.append((begin, size))
            self._free = merged


class BlockReader:
    """Reads the blocks of the other side; a block is free when its last array has been collected."""

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        self._done: list[int] = []

    def read(self, start: int, size: int) -> NDArray[np.uint8]:
        """Return the block at `start`."""
        block = np.frombuffer(self._memory, np.uint8, size, start)
        watch = weakref.finalize(block, self._done.append, start)
        watch.atexit = False
        return block

    def done(self) -> tuple[int, ...]:
        """Return the blocks freed since the last call."""
        done = self._done
        # finalizers append from any thread: remove exactly the entries that were read
        taken = tuple(done[: len(done)])
        del done[: len(taken)]
        return taken
