"""What decisions need to know of the operator's own configuration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_api.types.container import ImagePullPolicy

Peer = Mapping[str, Any]
"""A NetworkPolicyPeer, in networking/v1's own words."""


@dataclass(frozen=True, slots=True)
class PoolPeers:
    """Who may open connections to the pods of every pool."""

    cluster: tuple[Peer, ...]
    """To the cluster's port: the operator and Prometheus; never empty."""
    clients: tuple[Peer, ...] = ()
    """To the clients' port; empty: everybody."""


@dataclass(frozen=True, slots=True)
class DecideConfig:
    """Given by the administrator through the chart; never by a pool."""

    default_runtime_image: str
    """Pinned into the template of a pool that names no image, at its first render."""
    image_pull_policy: ImagePullPolicy | None = None
    """For pools that say none; None leaves it to the API server's default."""
    peers: PoolPeers | None = None
    """None: pools have no NetworkPolicy of the operator's."""
