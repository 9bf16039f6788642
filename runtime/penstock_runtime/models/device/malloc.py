"""`keep_freed_memory`: configures glibc's allocator to reuse freed memory for the next batch.

By default glibc returns large blocks to the kernel as soon as they are freed, such as a model's temporary tensors, so
each batch pays for every page again (malloc_trim(3), mallopt(3)). With an encoder the size of MiniLM, 128 texts
cause more than 10,000 page faults (docs/design/encoders-bench.md has their cost).
"""

import ctypes
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""Parameters of mallopt (malloc.h)."""
KEPT_BYTES: Final = 64 * 2**20
"""Free memory kept at the top of the heap: the memory of one pass of an encoder."""
OWN_MAPPING_BYTES: Final = 32 * 2**20
"""Size from which allocations use mmap; glibc allows no larger value."""


def keep_freed_memory() -> None:
    """Set the thresholds for this process; without effect if the C library is not glibc."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, OWN_MAPPING_BYTES)
