"""A separate control plane: etcd, API server, and the controllers of Deployments and ReplicaSets.

It runs in the network namespace of this process, isolated from the rest of the machine. Nodes are fake: `kubelet.py`
binds the pods and writes Ready statuses, as kwok does.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.components import parts
from tests.support.cluster.components.api import ClusterApi
from tests.support.cluster.components.parts import Part
from tests.support.cluster.host import processes
from tests.support.cluster.host.processes import Recorded
from tests.support.cluster.life import write_files
from tests.support.cluster.packages import tools
from tests.support.cluster.places import Places
from tests.support.cluster.progress import wait_until
from tests.support.kube.api import Api

READY_SECONDS = 600
SERVED = ("--storage-media-type=application/json", "--etcd-compaction-interval=1h")
"""JSON storage, so that objects can be copied (`copies.py`), and late compaction: with the default of 5 minutes, an operator
on a busy machine has to restart its chunked list of 5,000 pools."""
NAMESPACE = "many"
"""Namespace of the pools."""
CONTROLLERS = (
    "--controllers=deployment,replicaset", "--kube-api-qps=500", "--kube-api-burst=1000",
    "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
)  # fmt: skip
"""Settings with which the controllers are not the bottleneck."""


class NotAloneError(RuntimeError):
    """This process shares the machine's network."""


def enter_network() -> None:
    """Configure the addresses of this process' network namespace.

    Raises:
        NotAloneError: the process is in the machine's network namespace.
    """
    links = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
    if len(links.splitlines()) > 1:
        raise NotAloneError(
            "run it in a separate network namespace: unshare --net, as make bench-scale does"
        )
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "replace", f"{settings.NODE_ADDRESS}/32", "dev", "lo"),
        ("route", "replace", "local", "10.128.0.0/9", "dev", "lo"),
    ):
        subprocess.run(("ip", *words), check=True)


@dataclass
class Plane:
    """A running control plane."""

    api: Api
    places: Places
    controllers: Part
    _controlling: Recorded | None = None

    def start_controllers(self) -> None:
        """Start the controllers of Deployments and ReplicaSets."""
        self._controlling = processes.start(self.controllers, self.places.run)

    def stop_controllers(self) -> None:
        """Stop the controllers, so that they never see partially written copies."""
        if self._controlling is not None:
            processes.end(self._controlling, grace_seconds=3)
            self._controlling = None


@contextmanager
def running(folder: Path) -> Iterator[Plane]:
    """Run a control plane in a folder."""
    node = tools.program(Places.from_env(), tools.NODE, "node")
    if not node.exists():
        raise FileNotFoundError(f"{node} is not built: run make cluster")
    places = replace(Places.from_env(), cache=folder)
    write_files(places)
    served = parts.api_part(places, node)
    plane = (parts.storage_part(places, node), Part(served.name, (*served.argv, *SERVED)))
    controllers = parts.other_parts(places, node)[0]
    quick = Part(controllers.name, (*controllers.argv, *CONTROLLERS))
    started = []
    try:
        started += [processes.start(part, places.run) for part in plane]
        watched = ClusterApi(places.run / "pki")
        wait_until("the API server", watched.not_ready, timeout_seconds=READY_SECONDS)
        control_plane = Plane(Api(str(places.kubeconfig)), places, quick)
        try:
            control_plane.start_controllers()
            yield control_plane
        finally:
            control_plane.stop_controllers()
    finally:
        for process in reversed(started):
            processes.end(process, grace_seconds=3)
