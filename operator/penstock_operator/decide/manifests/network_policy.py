"""The NetworkPolicy of a pool's pods."""

from collections.abc import Sequence
from typing import Any

from penstock_api import names
from penstock_operator.decide.config import Peer, PoolPeers
from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata, selector
from penstock_operator.observed import PoolObject


def network_policy(pool: PoolObject, peers: PoolPeers) -> Manifest:
    """Return the NetworkPolicy: the cluster port admits the operator and Prometheus, the client port clients.

    Kubelets need no rule: traffic from a pod's own node is always allowed (networking/v1, NetworkPolicy).
    """
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(pool, child_name(pool)),
        "spec": {
            "podSelector": {"matchLabels": selector(pool)},
            "policyTypes": ["Ingress"],
            "ingress": [
                _rule(names.CLIENT_PORT_NAME, clients(peers)),
                _rule(names.CLUSTER_PORT_NAME, peers.cluster),
                *_between_ranks(pool),
            ],
        },
    }


def clients(peers: PoolPeers) -> list[Peer]:
    """Return the peers of a client port, empty for every source.

    A restricted port also admits Penstock's own pods of the namespace: gateways and batch services send requests, and pods
    hand streams over.
    """
    own: Peer = {"podSelector": {"matchLabels": {names.LABEL_APP_PART_OF: "penstock"}}}
    return [*peers.clients, own] if peers.clients else []


def _between_ranks(pool: PoolObject) -> list[dict[str, Any]]:
    """Return the rule that admits the pods of groups to each other on every port: ranks choose theirs."""
    grouped = pool.spec.pods_per_replica > 1
    return [{"from": [{"podSelector": {"matchLabels": selector(pool)}}]}] if grouped else []


def _rule(port: str, peers: Sequence[Peer]) -> dict[str, Any]:
    """Return the rule of a port; without peers it admits every source, as in networking/v1."""
    opened = {"ports": [{"protocol": "TCP", "port": port}]}
    return {**opened, "from": [dict(peer) for peer in peers]} if peers else opened
