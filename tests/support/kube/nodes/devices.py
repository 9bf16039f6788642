"""A pod that allocates devices, so that few of them are left on the node."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kube.api import Api, Object, path_of
from tests.support.kube.pools import is_ready, until

GPU = "nvidia.com/gpu"


@contextmanager
def occupied_devices(api: Api, namespace: str, image: str, count: int) -> Iterator[None]:
    """Allocate `count` devices to a sleeping pod of `image` inside the context."""
    pod = _holder(namespace, image, count)
    path = path_of(pod)
    api.create(pod)
    try:
        until(f"{count} devices allocated", lambda: is_ready(api.request("GET", path)), seconds=60)
        yield
    finally:
        api.delete(path, grace_seconds=0)
        until("the devices released", lambda: api.get(path) is None, seconds=60)


def _holder(namespace: str, image: str, count: int) -> Object:
    container = {
        "name": "holder",
        "image": image,
        "command": ["python3", "-c", "import time; time.sleep(3600)"],
        "resources": {"limits": {GPU: str(count)}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "device-holder", "namespace": namespace},
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }
