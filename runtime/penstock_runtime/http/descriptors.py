"""File descriptors of this process: the limit, raised to the hard one, and the share of client connections."""

import resource
from typing import Final

CLUSTER_CONNECTIONS: Final = 32
"""Connections to the cluster port, reserved for probes, metrics and control however many clients connect."""
RESERVED_DESCRIPTORS: Final = 96
"""Descriptors for listeners, the engine link, files, a model download, and connections about to be closed."""
MIN_CLIENT_CONNECTIONS: Final = 16
FEW_CONNECTIONS: Final = 4096
"""Client connections of any pod whose descriptors allow them: one without a request takes some 5 KiB."""


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Return the number of files that this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def client_connections(descriptors: int, queue_depth: int) -> int:
    """Return the bound on client connections: twice the queue depth (each request has one), within the descriptors."""
    available = descriptors - CLUSTER_CONNECTIONS - RESERVED_DESCRIPTORS
    return max(min(available, max(FEW_CONNECTIONS, 2 * queue_depth)), MIN_CLIENT_CONNECTIONS)
