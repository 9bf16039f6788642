"""A pod that is never scheduled, with a runtime process on this machine in its place.

The pool selects a node that does not exist, so its pod stays unscheduled. The test writes the pod's status as a kubelet
would, with a loopback address at which the real runtime listens. Its settings folder follows the pool's ConfigMap.
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock_api import names
from tests.support.kube import runtime_process
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, until

NOWHERE: Object = {"template": {"nodeSelector": {"penstock-tests/nowhere": "true"}}}
CLOCK = """
import time
_real = time.time
time.time = lambda: _real() + {seconds}
"""


@dataclass(slots=True)
class FakePod:
    """An unscheduled pod and the process that serves for it."""

    api: Api
    pool: PoolHandle
    pod: Object
    address: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def of(cls, api: Api, pool: PoolHandle, address: str, folder: Path) -> "FakePod":
        """Wait for the pool's only pod."""
        until("its pod is created", pool.pods, seconds=90)
        (pod,) = pool.pods()
        return cls(api, pool, pod, address, folder)

    def start(self, clock_off_seconds: float = 0.0) -> None:
        """Start the runtime with the pod's environment and an offset clock."""
        self.sync_settings()
        (self.folder / "sitecustomize.py").write_text(CLOCK.format(seconds=clock_off_seconds))
        more = {"PENSTOCK_CONNECTION_AGE_SECONDS": "3600"}
        self.process = runtime_process.start(self.pod, self.address, self.folder, more)

    def sync_settings(self) -> None:
        """Write the pool's ConfigMap to the pod's folder, as the kubelet does within about a minute."""
        runtime_process.sync_settings(self.api, self.pod, self.folder)

    def generation(self) -> int:
        """Return the generation that the pool's ConfigMap publishes."""
        text = self.api.request("GET", self.pool.children["ConfigMap"])["data"][names.LIMITS_FILE]
        return int(json.loads(text)["generation"])

    def write_ready_status(self) -> None:
        """Write the status of a Ready pod, as a kubelet would."""
        where = f"/api/v1/namespaces/{self.pool.namespace}/pods/{self.pod['metadata']['name']}"
        since = "2026-01-01T00:00:00Z"
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": since}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ]
        ips: dict[str, Any] = {"podIP": self.address, "podIPs": [{"ip": self.address}]}
        status = {"phase": "Running", "conditions": conditions, **ips}
        self.api.merge(f"{where}/status", {"status": status})

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
