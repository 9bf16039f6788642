"""`OperatedPool`: a real operator and the InferencePool of the pods of a bench, in a control plane of its own.

etcd, the API server and the controllers of Deployments and ReplicaSets are real; there is no kubelet. The bench's pods are
processes that have the UIDs and the addresses of the pool's pods, so the operator scrapes them, reads their limits and
plans for the batch work that it reads from the bench's batch service. The API reports them Ready throughout, also while a
killed one starts again. In place of DNS, the operator has a hosts file with the name of the batch service's Service.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock_api import names
from tests.bench.scale.kubelet import bring_up
from tests.bench.scale.plane import running
from tests.support.batches.stage import LIMITS, MODEL, SOURCE
from tests.support.kube.api import Object
from tests.support.kube.install import install_crds
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pools import PoolHandle, until

NAMESPACE: Final = "team-a"
SYSTEM: Final = "bench-system"
POD_LIMITS: Final = {"maxBatchSize": 16, "maxQueueDepth": 64}
HOSTS: Final = Path("/etc/hosts")
WITH_HOSTS: Final = ("unshare", "--mount", "sh", "-c", f'mount --bind "$0" {HOSTS} && exec "$@"')
"""Runs a command with a hosts file that no other process sees; the process stays the same, so a signal reaches the command."""


@dataclass(slots=True)
class OperatedPool:
    """The pool, its pods in the API, and the operator."""

    pool: PoolHandle
    operator: OperatorProcess
    pods: list[Object]

    @property
    def addresses(self) -> list[str]:
        """Addresses of the pods, of which this machine has the whole network."""
        return [f"10.128.0.{number + 1}" for number in range(len(self.pods))]

    def environment(self, number: int) -> dict[str, str]:
        """Return the variables with which a process is the pool's pod of a number."""
        return {
            "PENSTOCK_POD_UID": self.pods[number]["metadata"]["uid"],
            "PENSTOCK_HOST": self.addresses[number],
            "PENSTOCK_CLUSTER_PORT": str(names.CLUSTER_PORT),
        }

    def control_keys(self) -> dict[str, str]:
        """Return the keys that pods trust, from the pool's ConfigMap."""
        settings = self.pool.api.request("GET", self.pool.children["ConfigMap"])
        return dict(json.loads(settings["data"][names.CONTROL_KEYS_FILE]))

    def report_ready(self) -> None:
        """Bind the pods and write their Ready statuses, as scheduler and kubelet do."""
        for pod, address in zip(self.pods, self.addresses, strict=True):
            assert bring_up(self.pool.api, pod, address) is not None

    def lines_left(self) -> int | None:
        """Return the lines of batch work in the pool's status; None: the operator plans for none."""
        batch_work = self.pool.status().get("scaling", {}).get("batchWork")
        return None if batch_work is None else int(batch_work["linesLeft"])


@contextmanager
def operated_pool(folder: Path, pods: int) -> Iterator[OperatedPool]:
    """Run a control plane, an operator and a pool of `pods` pods."""
    folder.mkdir()
    hosts = folder / "hosts"
    service = f"127.0.0.1 {names.BATCHES_NAME}.{NAMESPACE}.svc\n"
    hosts.write_text(HOSTS.read_text() + service)
    with running(folder / "plane") as plane:
        install_crds(plane.api)
        for name in (NAMESPACE, SYSTEM):
            plane.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        operator = OperatorProcess(plane.places.kubeconfig, SYSTEM, folder)
        operator.command = [*WITH_HOSTS, str(hosts), *operator.command]
        pool = PoolHandle(plane.api, NAMESPACE, MODEL)
        pool.apply(_spec(pods))
        try:
            operator.start()
            until("the pool's pods", lambda: len(pool.pods()) == pods, seconds=120)
            yield OperatedPool(pool, operator, pool.pods())
        finally:
            if operator.running:
                operator.stop()


def _spec(pods: int) -> Object:
    """Return a pool whose law decides, within the count and the limits that the processes have."""
    return {
        "model": {"task": "TextGeneration", "source": SOURCE},
        "accelerator": {"count": 0},
        "scaling": {"mode": "Auto", "minReplicas": pods, "maxReplicas": pods},
        "batching": {
            "mode": "Fixed",
            "size": {"max": POD_LIMITS["maxBatchSize"]},
            "maxQueueDepth": POD_LIMITS["maxQueueDepth"],
            "maxQueueDelayMilliseconds": LIMITS["maxQueueDelayMilliseconds"],
        },
        "batchWork": {"maxReplicas": 0},
    }
