"""The age of the bytes in a client's socket, and those that the client received, by the kernel's TCP statistics."""

import asyncio
import socket
import struct
from typing import Final

_LAST_RECEIVED: Final = struct.Struct("=52xI")
"""The member `tcpi_last_data_recv` of Linux' `struct tcp_info`, in milliseconds."""
_ACKNOWLEDGED: Final = struct.Struct("=120xQ")
"""Its member `tcpi_bytes_acked`."""


def seconds_in_socket(transport: asyncio.BaseTransport | None) -> float:
    """Return the time since the last bytes of `transport` arrived, read or not; 0 where it is not known.

    For a request that was just read, this is its wait in the socket: a stalled process or a throttled connection reads
    late. Costs one system call.
    """
    return _tcp_info(transport, _LAST_RECEIVED) / 1000


def acknowledged_bytes(transport: asyncio.BaseTransport | None) -> int:
    """Return the number of bytes that the client of `transport` has acknowledged since it connected; 0 where it is not known.

    The number grows as the client reads, also where the write buffer does not shrink: the kernel takes more of it only
    after large parts.
    """
    return _tcp_info(transport, _ACKNOWLEDGED)


def _tcp_info(transport: asyncio.BaseTransport | None, member: struct.Struct) -> int:
    connection = None if transport is None else transport.get_extra_info("socket")
    if connection is None:
        return 0
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, member.size)
        (value,) = member.unpack(info)
    except (OSError, struct.error):  # not TCP, or closed
        return 0
    return int(value)
