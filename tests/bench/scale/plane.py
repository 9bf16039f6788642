"""A control plane of its own: etcd, API server, and of the controllers those of Deployments and ReplicaSets.

It runs in the network namespace of this process, so that nothing else on the machine is touched. Nodes are pretended:
`kubelet.py` binds the pods and says that they are Ready, as kwok does.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support.cluster import parts, processes, settings, tools
from tests.support.cluster.api import ClusterApi
from tests.support.cluster.life import write_files
from tests.support.cluster.parts import Part
from tests.support.cluster.places import Places
from tests.support.cluster.processes import Recorded
from tests.support.cluster.progress import wait_until
from tests.support.kube.api import Api

READY_SECONDS = 600
SERVED = ("--storage-media-type=application/json", "--etcd-compaction-interval=1h")
"""Stored so that it can be copied (`copies.py`), and kept so that a list in chunks holds on a machine with other work too: at the
API server's own 5 minutes, an operator that gets a tenth of a core begins its list of 5,000 pools anew."""
NAMESPACE = "many"
"""Of the pools."""
CONTROLLERS = (
    "--controllers=deployment,replicaset", "--kube-api-qps=500", "--kube-api-burst=1000",
    "--concurrent-deployment-syncs=20", "--concurrent-replicaset-syncs=20",
)  # fmt: skip
"""Quick enough not to be what is measured."""


class NotAloneError(RuntimeError):
    """This process shares the machine's network."""


def enter_network() -> None:
    """Give this process' own network namespace its addresses.

    Raises:
        NotAloneError: it has none of its own.
    """
    links = subprocess.run(("ip", "-o", "link"), capture_output=True, text=True, check=True).stdout
    if len(links.splitlines()) > 1:
        raise NotAloneError(
            "run it in a network of its own: unshare --net, as make bench-scale does"
        )
    for words in (
        ("link", "set", "lo", "up"),
        ("addr", "replace", f"{settings.NODE_ADDRESS}/32", "dev", "lo"),
        ("route", "replace", "local", "10.128.0.0/9", "dev", "lo"),
    ):
        subprocess.run(("ip", *words), check=True)


@dataclass
class Plane:
    """A control plane that runs."""

    api: Api
    places: Places
    controllers: Part
    _controlling: Recorded | None = None

    def start_controllers(self) -> None:
        """Let Deployments and ReplicaSets have their controllers."""
        self._controlling = processes.start(self.controllers, self.places.run)

    def stop_controllers(self) -> None:
        """Take them away: what is stored meanwhile is seen whole when they come back."""
        if self._controlling is not None:
            processes.end(self._controlling, grace_seconds=3)
            self._controlling = None


@contextmanager
def running(folder: Path) -> Iterator[Plane]:
    """Run a control plane in a folder."""
    node = tools.program(Places.from_env(), tools.NODE, "node")
    if not node.exists():
        raise FileNotFoundError(f"{node} is not built: make cluster does that")
    places = replace(Places.from_env(), cache=folder)
    write_files(places)
    served = parts.api_part(places, node)
    plane = (parts.storage_part(places, node), Part(served.name, (*served.argv, *SERVED)))
    controllers = parts.other_parts(places, node)[0]
    quick = Part(controllers.name, (*controllers.argv, *CONTROLLERS))
    started = []
    try:
        started += [processes.start(one, places.run) for one in plane]
        watched = ClusterApi(places.run / "pki")
        wait_until("the API server", watched.not_ready, timeout_seconds=READY_SECONDS)
        made = Plane(Api(str(places.kubeconfig)), places, quick)
        try:
            made.start_controllers()
            yield made
        finally:
            made.stop_controllers()
    finally:
        for one in reversed(started):
            processes.end(one, grace_seconds=3)
