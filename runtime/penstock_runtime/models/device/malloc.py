"""The C library's allocator, told to keep what one batch frees for the next.

By itself glibc gives large blocks back to the kernel as soon as they are free, and a model's temporary tensors are such
blocks: each batch then pays anew for every page that it touches (malloc_trim(3), mallopt(3)). For an encoder of MiniLM's
size that is 10,000 page faults and more for 128 texts (docs/encoders.md has what they cost).
"""

import ctypes
from contextlib import suppress
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
"""mallopt's names for its settings (malloc.h)."""
KEPT_BYTES: Final = 64 * 2**20
"""At most so much of an arena's end stays when it is free: what one pass of an encoder takes, and its next one again."""
OWN_MAPPING_BYTES: Final = 32 * 2**20
"""Blocks of this size and more still come and go by themselves: glibc allows no more."""


def keep_freed_memory() -> None:
    """Tell the allocator, for this whole process; where the C library is not glibc nothing happens."""
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_MMAP_THRESHOLD, OWN_MAPPING_BYTES)
