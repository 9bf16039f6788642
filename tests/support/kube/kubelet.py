"""What a kubelet writes of its node, for those that play one."""

import time
from collections.abc import Mapping

from tests.support.kube.api import Object


def ready_node_status(room: Mapping[str, str]) -> Object:
    """Return the status of a node that is Ready, with room for so much."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "lastHeartbeatTime": now(),
    }
    return {"capacity": room, "allocatable": room, "conditions": [ready]}


def pod_path(pod: Object) -> str:
    """Return a pod's path at the API server."""
    where = pod["metadata"]
    return f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}"


def now() -> str:
    """Return the time as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
