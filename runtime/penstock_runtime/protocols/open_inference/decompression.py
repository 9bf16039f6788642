"""Decompression of a body in bounded pieces; a truncated body is rejected."""

import zlib
from collections.abc import Iterator
from typing import Any, Final

_PIECE_BYTES: Final = 2**18
"""The largest output of one step, so that a small body with a large content does not block the event loop."""
_SLICE_BYTES: Final = 2**14
"""The largest input of one step: blocks without content cost time as well, some 2 ms for as many bytes."""
MAX_MEMBERS: Final = {"gzip": 2**12, "deflate": 1}
"""The largest number of members of one body: each costs a decompressor and a copy of the rest of its slice."""
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS


class Truncated(zlib.error):
    """The body ends before its last member does."""


class Inflater:
    """Decompresses `gzip` of several members, and one stream of `deflate` in zlib's format or raw, as some clients send it."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._members = 0
        """The number of members that have begun."""
        self._member: Any = None
        """The decompressor of the present member; None between members."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed `data` in pieces, one after each step; those of a step without output are empty.

        Raises:
            zlib.error: it is invalid, or has too many members.
        """
        for at in range(0, len(data), _SLICE_BYTES):
            yield from self._slice(data[at : at + _SLICE_BYTES])

    def finish(self) -> None:
        """Check that the last member is complete.

        Raises:
            Truncated: it is not.
        """
        if self._member is not None:
            raise Truncated("it ends before its trailer")

    def _slice(self, rest: bytes) -> Iterator[bytes]:
        full = False
        while rest or full:
            member = self._member = self._member or self._begin(rest[0])
            piece = member.decompress(rest, _PIECE_BYTES)
            yield piece
            rest, full = member.unconsumed_tail, len(piece) == _PIECE_BYTES
            if member.eof:
                rest, full, self._member = member.unused_data, False, None

    def _begin(self, first: int) -> Any:
        if self._members == MAX_MEMBERS[self._coding]:
            raise zlib.error(f"it has more {self._coding} members than {self._members}")
        self._members += 1
        if self._coding == "gzip":
            return zlib.decompressobj(_GZIP_BITS)
        is_raw = first & 0x0F != zlib.DEFLATED
        return zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS)
