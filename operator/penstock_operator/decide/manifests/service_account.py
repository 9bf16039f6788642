"""The ServiceAccount of a pool's pods, without any permission."""

from penstock_operator.decide.manifests.metadata import Manifest, child_name, metadata
from penstock_operator.observed import PoolObject


def service_account(pool: PoolObject) -> Manifest:
    """Return the ServiceAccount; its token is not mounted, since the runtime never calls the API server."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(pool, child_name(pool)),
        "automountServiceAccountToken": False,
    }
