"""File descriptors of this process: the limit, raised as far as it may be, and what client connections may take of it."""

import resource
from typing import Final

CLUSTER_CONNECTIONS: Final = 32
"""Connections to the cluster port: probes, metrics and control keep theirs however many clients come."""
RESERVED_DESCRIPTORS: Final = 96
"""For listeners, the engine link, files, a model that is fetched, and connections that are about to be closed."""
MIN_CLIENT_CONNECTIONS: Final = 16
FEW_CONNECTIONS: Final = 4096
"""What any pod may have if its descriptors allow: a connection without a request takes some 5 KiB."""


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def limit() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def client_connections(descriptors: int, queue_depth: int) -> int:
    """Return how many client connections are kept: twice what may wait (each request has one), as far as descriptors allow."""
    left = descriptors - CLUSTER_CONNECTIONS - RESERVED_DESCRIPTORS
    return max(min(left, max(FEW_CONNECTIONS, 2 * queue_depth)), MIN_CLIENT_CONNECTIONS)
