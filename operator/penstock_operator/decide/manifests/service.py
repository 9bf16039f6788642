"""The Service of a pool's clients."""

from penstock_api import names
from penstock_operator.decide.manifests.metadata import Manifest, metadata, selector, service_name
from penstock_operator.observed import PoolObject


def service(pool: PoolObject) -> Manifest:
    """Return the Service with the client port only, so that exposing a pool never exposes its control API."""
    port = {
        "name": names.CLIENT_PORT_NAME,
        "port": names.CLIENT_PORT,
        "targetPort": names.CLIENT_PORT_NAME,
        "protocol": "TCP",
        "appProtocol": "http" if pool.spec.tls is None else "https",
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(pool, service_name(pool)),
        "spec": {"type": "ClusterIP", "selector": selector(pool), "ports": [port]},
    }
