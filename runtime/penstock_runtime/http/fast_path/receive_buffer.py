"""`ReceiveBuffer`: bytes that a connection has received and not handled, and the pause of reading from its socket."""

import asyncio
from typing import Final

MAX_PIPELINED_BYTES: Final = 2**16
"""The bytes that may wait after a request before the socket is no longer read."""


class ReceiveBuffer:
    """The first part of a request, or the requests after the one in progress."""

    __slots__ = ("_stopped", "data", "needed")

    def __init__(self) -> None:
        self.data = bytearray()
        self.needed = 0
        """The length from which on another look at the first part of a request can succeed."""
        self._stopped = False

    def hold(self, data: bytes, transport: asyncio.Transport | None) -> None:
        """Keep pipelined bytes; stop reading when many wait."""
        self.data += data
        if len(self.data) > MAX_PIPELINED_BYTES:
            self.stop_reading(transport)

    def take(self) -> bytes:
        """Return the bytes and forget them."""
        data = bytes(self.data)
        self.data.clear()
        return data

    def is_short(self) -> bool:
        """Return whether more may be read."""
        return len(self.data) <= MAX_PIPELINED_BYTES

    def is_waiting(self) -> bool:
        """Return whether bytes wait here or in the socket."""
        return bool(self.data) or self._stopped

    def stop_reading(self, transport: asyncio.Transport | None) -> None:
        """Stop reading from the socket."""
        if transport is not None and not self._stopped:
            self._stopped = True
            transport.pause_reading()

    def read_on(self, transport: asyncio.Transport | None) -> None:
        """Read from the socket again."""
        if transport is not None and self._stopped:
            self._stopped = False
            transport.resume_reading()
