"""The age of the bytes in a client's socket, by the kernel's TCP statistics."""

import asyncio
import socket
import struct
from typing import Final

_TCP_INFO: Final = struct.Struct("=52xI")
"""The member `tcpi_last_data_recv` of Linux' `struct tcp_info`, in milliseconds."""


def seconds_in_socket(transport: asyncio.BaseTransport | None) -> float:
    """Return the time since the last bytes of `transport` arrived, read or not; 0 where it is not known.

    For a request that was just read, this is its wait in the socket: a stalled process or a throttled connection reads
    late. Costs one system call.
    """
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        return 0.0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        (milliseconds,) = _TCP_INFO.unpack(info)
    except (OSError, struct.error):  # not TCP, or closed
        return 0.0
    return float(milliseconds) / 1000
