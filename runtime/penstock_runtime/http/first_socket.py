"""The socket of the cluster port, opened before the rest of the runtime is imported.

Imports take 0.6 s of CPU time, several seconds if a busy node starts several pods. The kubelet's first probe waits in
the backlog of this socket meanwhile; otherwise its connection is refused, which is a Warning Event.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from penstock_api import names

BACKLOG: Final = 1024
_opened: list[socket.socket] = []
"""At most one, until it is taken."""


def open_first(environ: Mapping[str, str]) -> None:
    """Open the cluster port of a pod with the default host; an error is left to the later attempt, which reports it."""
    with suppress(ValueError, OSError):
        port = int(environ.get(names.ENV_CLUSTER_PORT, names.CLUSTER_PORT))
        if names.ENV_HOST not in environ and 0 < port < 2**16:
            _opened.append(socket.create_server((names.ANY_HOST, port), backlog=BACKLOG))


def server_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket, which may be the one that was opened first; port 0: any free port.

    Raises:
        OSError: the address is in use or not available.
    """
    if _opened and _opened[0].getsockname() == (host, port):
        return _opened.pop()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
