"""Decompression of a body in bounded pieces; a truncated body is rejected."""

import zlib
from collections.abc import Iterator
from typing import Any, Final

PIECE_BYTES: Final = 2**18
"""The largest output of one step, so that a small body with a large content does not block the event loop."""
_SLICE_BYTES: Final = 2**12
"""The input of one step: each new gzip member copies the rest of it."""
_GZIP_BITS: Final = 16 + zlib.MAX_WBITS


class Truncated(zlib.error):
    """The body ends before its last member does."""


class Inflater:
    """Decompresses `gzip` of any number of members, and `deflate` in zlib's format or raw, as some clients send it."""

    def __init__(self, coding: str) -> None:
        self._gzip = coding == "gzip"
        self._member: Any = None
        """The decompressor of the present member; None between members."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed `data` in pieces.

        Raises:
            zlib.error: it is invalid.
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
            piece = member.decompress(rest, PIECE_BYTES)
            if piece:
                yield piece
            rest, full = member.unconsumed_tail, len(piece) == PIECE_BYTES
            if member.eof:
                rest, full, self._member = member.unused_data, False, None

    def _begin(self, first: int) -> Any:
        if self._gzip:
            return zlib.decompressobj(_GZIP_BITS)
        is_raw = first & 0x0F != zlib.DEFLATED
        return zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS)
