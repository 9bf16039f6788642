"""What the kernel knows of a client's connection."""

import asyncio
import socket
import struct
from typing import Final

_TCP_INFO: Final = struct.Struct("=52xI")
"""Of Linux' `struct tcp_info`: `tcpi_last_data_recv`, milliseconds."""


def seconds_in_socket(transport: asyncio.BaseTransport | None) -> float:
    """Return how long ago the last bytes of `transport` came, read or not; 0 where that is not known.

    Asked when a request is read, that is how long it has lain in its socket: a stalled process, and a
    connection that rests, read late. Takes one system call.
    """
    own = None if transport is None else transport.get_extra_info("socket")
    if own is None:
        return 0.0
    try:
        told = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        (milliseconds,) = _TCP_INFO.unpack(told)
    except (OSError, struct.error):  # no TCP, or closed meanwhile
        return 0.0
    return float(milliseconds) / 1000
