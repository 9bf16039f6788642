"""The identity of a pool's pods: a ServiceAccount of their own that can do nothing."""

from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata
from penstock_operator.observed import PoolObject


def service_account(pool: PoolObject) -> Manifest:
    """Return the ServiceAccount; no token is mounted, since the runtime never calls the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(pool, child_name(pool)),
        "automountServiceAccountToken": False,
    }
