"""The parts of the operator's configuration that decisions depend on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock_api.types.pod_template.container import ImagePullPolicy
from penstock_api.types.pod_template.security import IdSource

Peer = Mapping[str, Any]
"""A NetworkPolicyPeer of networking/v1."""


@dataclass(frozen=True, slots=True)
class PoolPeers:
    """The sources that a pool's NetworkPolicy admits."""

    cluster: tuple[Peer, ...]
    """Sources for the cluster port: the operator and Prometheus; never empty."""
    clients: tuple[Peer, ...] = ()
    """Sources for the client port; empty admits every source."""


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The pods of every namespace's gateway."""

    image: str
    """Image of the controller."""
    envoy_image: str
    cluster_role: str
    """ClusterRole that allows to watch Services and pods; the operator binds it in each namespace with a gateway."""
    replicas: int = 2
    heap_bytes: int = 2**30
    """Envoy's heap, near which it sheds load."""
    image_pull_policy: ImagePullPolicy | None = None
    ids: IdSource = IdSource.FIXED
    """Source of UID and GID, of which both containers need the same."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pods' spec: imagePullSecrets, nodeSelector, tolerations, priorityClassName."""


@dataclass(frozen=True, slots=True)
class DecideConfig:
    """Settings that the administrator sets through the chart and that no pool can change."""

    default_runtime_image: str
    """Image pinned into the template of a pool that names none, at its first render."""
    image_pull_policy: ImagePullPolicy | None = None
    """Pull policy of pools that set none; None leaves it to the API server's default."""
    pool_ids: IdSource = IdSource.FIXED
    """Origin of the user and group IDs that a pool leaves unset."""
    peers: PoolPeers | None = None
    """None: the operator creates no NetworkPolicy for pools."""
    gateway: GatewayConfig | None = None
    """None: this installation has no gateway."""
    groups: bool = False
    """Whether this installation creates LeaderWorkerSets."""
