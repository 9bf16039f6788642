"""`use_interface_of`: which network interface gloo and NCCL use between pods."""

import fcntl
import logging
import os
import socket
import struct
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

_SIOCGIFADDR: Final = 0x8915
"""Returns the IPv4 address of an interface (Linux, netdevice(7))."""
_ENVIRONMENT: Final = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def use_interface_of(address: str) -> None:
    """Let the ranks, which inherit this environment, use the interface that has `address`; variables that are set remain."""
    interface = interface_of(address, own_addresses())
    if interface is None:
        log.warning("no interface has the address %s: gloo selects one by the host's name", address)
        return
    for name in _ENVIRONMENT:
        os.environ.setdefault(name, interface)


def interface_of(address: str, addresses: dict[str, set[str]]) -> str | None:
    """Return the interface that has `address`."""
    return next((name for name, own in addresses.items() if address in own), None)


def own_addresses() -> dict[str, set[str]]:
    """Return the addresses of each interface of this pod."""
    addresses: dict[str, set[str]] = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an IPv4 address
                packed = fcntl.ioctl(
                    probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode())
                )
                addresses.setdefault(name, set()).add(socket.inet_ntoa(packed[20:24]))
    with suppress(OSError):  # a kernel without IPv6
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            digits, *_, name = line.split()
            addresses.setdefault(name, set()).add(str(IPv6Address(int(digits, 16))))
    return addresses
