"""A fake node whose kubelet only writes statuses, so that rollouts run at the speed of the API server.

The API server, the scheduler and the controllers are real. A taint keeps other pods away from the node.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.nodes.kubelet import now, pod_path, ready_node_status
from tests.support.kube.pools import emulated, is_ready

LABEL = "penstock-tests/fake-node"
GPU = "nvidia.com/gpu"
BROKEN_IMAGE = "localhost/broken:1"
"""Pods of this image never become Ready."""
HEARTBEAT_SECONDS = 10.0
TURN_SECONDS = 0.2


@dataclass(slots=True)
class FakeNode:
    """A node with `gpus` devices, for pools with a spec of `spec()`."""

    api: Api
    """A separate connection, because a thread uses it."""
    name: str
    gpus: int
    _stopping: threading.Event = field(default_factory=threading.Event)
    _beat: float = 0.0

    def spec(self, **more: Any) -> Object:
        """Return the spec of a pool whose pods run on this node, one device each."""
        toleration = {"key": LABEL, "operator": "Equal", "value": self.name}
        template: Object = {"nodeSelector": {LABEL: self.name}, "tolerations": [toleration]}
        own: Object = more.pop("template", {})
        return emulated(accelerators=1, template={**template, **own}, **more)

    @contextmanager
    def running(self) -> Iterator["FakeNode"]:
        """Register the node and run its fake kubelet inside the context; then delete the node and its pods."""
        taint = {"key": LABEL, "value": self.name, "effect": "NoSchedule"}
        meta = {"name": self.name, "labels": {LABEL: self.name}}
        head = {"apiVersion": "v1", "kind": "Node"}
        self.api.request(
            "POST", "/api/v1/nodes", {**head, "metadata": meta, "spec": {"taints": [taint]}}
        )
        thread = threading.Thread(target=self._run, name=self.name)
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            thread.join()
            for pod in self._pods():
                self.api.delete(pod_path(pod), grace_seconds=0)
            self.api.delete(f"/api/v1/nodes/{self.name}")

    def _run(self) -> None:
        while not self._stopping.wait(TURN_SECONDS):
            if time.monotonic() - self._beat > HEARTBEAT_SECONDS:
                self._beat = time.monotonic()
                self.api.merge(f"/api/v1/nodes/{self.name}/status", {"status": self._status()})
            for pod in self._pods():
                try:
                    self._serve(pod)
                except ApiError as error:
                    if error.status not in (404, 409):
                        raise

    def _status(self) -> Object:
        return ready_node_status({"cpu": "8", "memory": "64Gi", "pods": "50", GPU: str(self.gpus)})

    def _pods(self) -> list[Object]:
        return self.api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")

    def _serve(self, pod: Object) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self.api.delete(pod_path(pod), grace_seconds=0)
        elif not is_ready(pod) and not pod["status"].get("containerStatuses"):
            self.api.merge(f"{pod_path(pod)}/status", {"status": _started(pod)})


def _started(pod: Object) -> Object:
    (container,) = pod["spec"]["containers"]
    broken = container["image"] == BROKEN_IMAGE
    scheduled = [
        condition
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "PodScheduled"
    ]
    changed = [
        {"type": kind, "status": "False" if broken else "True", "lastTransitionTime": now()}
        for kind in ("Initialized", "ContainersReady", "Ready")
    ]
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    state = waiting if broken else {"running": {"startedAt": now()}}
    container_status = {
        "name": container["name"], "image": container["image"], "imageID": "" if broken else "sha256:0",
        "ready": not broken, "started": not broken, "restartCount": 0, "state": state,
    }  # fmt: skip
    phase = "Pending" if broken else "Running"
    return {
        "phase": phase,
        "conditions": [*scheduled, *changed],
        "containerStatuses": [container_status],
    }
