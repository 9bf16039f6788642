"""Node statuses and pod paths for fake kubelets."""

import time
from collections.abc import Mapping

from tests.support.kube.api import Object


def ready_node_status(capacity: Mapping[str, str]) -> Object:
    """Return the status of a Ready node with the given capacity."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now(),
    }
    return {"capacity": capacity, "allocatable": capacity, "conditions": [ready]}


def pod_path(pod: Object) -> str:
    """Return a pod's path at the API server."""
    where = pod["metadata"]
    return f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}"


def now() -> str:
    """Return the current time in the format of the Kubernetes API."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
