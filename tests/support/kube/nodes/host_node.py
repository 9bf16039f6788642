"""A second node with a fake kubelet, whose only pod is a real runtime process on this machine.

The pod has its own address on the cluster's bridge, so that the Service, Prometheus and the operator reach it like any
other pod. When the kubelet stops reporting, the pod keeps serving, as on a node that lost its API server.
"""

import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from penstock_api import names
from tests.support.cluster import settings
from tests.support.kube import runtime_process
from tests.support.kube.api import Api, ApiError, Object
from tests.support.kube.nodes.kubelet import now, pod_path, ready_node_status
from tests.support.kube.pools import is_ready, until

HEARTBEAT_SECONDS = 5.0
TURN_SECONDS = 0.5
CAPACITY = {"cpu": "4", "memory": "8Gi", "pods": "1"}


@dataclass(slots=True)
class HostNode:
    """A node with capacity for one pod."""

    api: Api
    """A separate connection, because a thread uses it."""
    name: str
    address: str
    """The pod's address, outside the pod subnet so that no other pod gets it."""
    folder: Path
    """The pod's settings, log and start-up file."""
    silent: threading.Event = field(default_factory=threading.Event)
    """While set, the kubelet neither reports nor reads, and its pod keeps serving."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _process: "subprocess.Popen[bytes] | None" = None
    _beat: float = 0.0

    @contextmanager
    def running(self) -> Iterator["HostNode"]:
        """Register the node and run its fake kubelet inside the context; then delete the node and its pod."""
        words = ("ip", "addr", "replace", f"{self.address}/32", "dev", settings.BRIDGE)
        subprocess.run(words, check=True)
        head = {"apiVersion": "v1", "kind": "Node"}
        self.api.request("POST", "/api/v1/nodes", {**head, "metadata": {"name": self.name}})
        thread = threading.Thread(target=self._run, name=self.name)
        thread.start()
        try:
            yield self
        finally:
            self._drain()
            self._stopping.set()
            thread.join()
            self._stop()
            self.api.delete(f"/api/v1/nodes/{self.name}")
            subprocess.run(("ip", "addr", "del", *words[3:]), check=True)

    def pods(self) -> list[Object]:
        """Return the pods that are bound to the node."""
        return self.api.list(f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self.name}")

    def ready(self) -> bool:
        """Return whether the node is Ready."""
        status = self.api.request("GET", f"/api/v1/nodes/{self.name}").get("status", {})
        conditions = status.get("conditions", [])
        return any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in conditions
        )

    def _drain(self) -> None:
        """Delete the pod and wait until it has drained; its replacement runs on the other node."""
        for pod in self.pods():
            self.api.delete(pod_path(pod))
        until("its pod has drained", lambda: not self.pods(), seconds=60)

    def _run(self) -> None:
        while not self._stopping.wait(TURN_SECONDS):
            if self.silent.is_set():
                continue
            try:
                self._turn()
            except ApiError as error:
                if error.status not in (404, 409):
                    raise
            except HTTPError:
                continue  # the API server is unavailable; like a kubelet, retry

    def _turn(self) -> None:
        if time.monotonic() - self._beat > HEARTBEAT_SECONDS:
            self._beat = time.monotonic()
            self.api.merge(
                f"/api/v1/nodes/{self.name}/status", {"status": ready_node_status(CAPACITY)}
            )
        for pod in self.pods():
            if "deletionTimestamp" in pod["metadata"]:
                self._stop()
                self.api.delete(pod_path(pod), grace_seconds=0)
            else:
                self._serve(pod)

    def _serve(self, pod: Object) -> None:
        runtime_process.sync_settings(self.api, pod, self.folder)
        if self._process is None or self._process.poll() is not None:
            self._process = runtime_process.start(pod, self.address, self.folder, {})
        elif not is_ready(pod) and self._answers():
            self.api.merge(f"{pod_path(pod)}/status", {"status": self._running(pod)})

    def _answers(self) -> bool:
        url = f"http://{self.address}:{names.CLUSTER_PORT}{names.PATH_READYZ}"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _running(self, pod: Object) -> dict[str, Any]:
        container = pod["spec"]["containers"][0]
        scheduled = [
            condition
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "PodScheduled"
        ]
        changed = [
            {"type": kind, "status": "True", "lastTransitionTime": now()}
            for kind in ("Initialized", "ContainersReady", "Ready")
        ]
        container_status = {
            "name": container["name"], "image": container["image"], "imageID": "host", "ready": True, "started": True,
            "restartCount": 0, "state": {"running": {"startedAt": now()}},
        }  # fmt: skip
        ips = {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        return {
            "phase": "Running",
            **ips,
            "conditions": [*scheduled, *changed],
            "containerStatuses": [container_status],
        }

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
