"""Faults of one pod: killed, out of memory, wrong clock, slow, cut off, full disk, node NotReady.

The kubelet of the NotReady node is fake; its pod is a real runtime that keeps serving.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.faults.stage import FaultStage
from tests.support.cluster.host import kernel
from tests.support.cluster.settings import NODE_NAME
from tests.support.kube.api import Object
from tests.support.kube.faults import packets
from tests.support.kube.nodes.host_node import HostNode
from tests.support.kube.nodes.kubelet import pod_path
from tests.support.kube.pods import restarts
from tests.support.kube.pools import is_ready, until
from tests.support.kube.target import ProgramFailedError

NAME, ADDRESS = "host", "10.245.0.2"
NODE_PATH = f"/api/v1/nodes/{NODE_NAME}"
NOT_READY_SECONDS = 120
"""Timeout; the node controller waits 50 s for a node's heartbeat (--node-monitor-grace-period)."""
CLOCK_SECONDS = 300
SLOWER = 10
HUNGRY = """
import os, time
for _ in range(15):
    if os.fork() == 0:
        break
chunks = []
while True:
    chunks.append(b"x" * 2**20)
    time.sleep(0.05)
"""
"""Allocates the container's memory in small steps, so that the kernel kills the largest process: the runtime's engine."""
FULL = """
import os
where = os.open("/tmp/full", os.O_WRONLY | os.O_CREAT)
while True:
    try:
        os.write(where, bytes(65536))
    except OSError as error:
        print(error.errno)
        break
"""
NO_SPACE = "28"  # ENOSPC


@contextmanager
def killed(stage: FaultStage) -> Iterator[None]:
    """Kill a pod's processes, including its sandbox, and delete the pod."""
    pod = stage.victim()
    pids = kernel.pod_processes(pod["metadata"]["uid"])
    assert pids, "the pod has no process on this machine"
    for pid in pids:
        kernel.kill(pid)
    stage.api.delete(pod_path(pod), grace_seconds=0)
    yield


@contextmanager
def out_of_memory(stage: FaultStage) -> Iterator[None]:
    """Fill a container's memory up to its limit."""
    pod = stage.victim()
    before = restarts(pod)
    assert _dies_of(stage, pod, HUNGRY), "the container has no memory limit"
    yield

    def reported() -> bool | str:
        now = stage.api.request("GET", pod_path(pod))
        ends = [
            container.get("lastState", {}).get("terminated", {}) for container in _containers(now)
        ]
        reasons = {end.get("reason") for end in ends}
        return (restarts(now) > before and "OOMKilled" in reasons) or f"ended by {reasons}"

    until("the kubelet reports OOMKilled", reported, seconds=60)


@contextmanager
def clock_ahead(stage: FaultStage) -> Iterator[None]:
    """Set a pod's clock five minutes ahead."""
    with _file(stage, "clock", str(CLOCK_SECONDS)):
        yield


@contextmanager
def clock_behind(stage: FaultStage) -> Iterator[None]:
    """Set a pod's clock five minutes back."""
    with _file(stage, "clock", str(-CLOCK_SECONDS)):
        yield


@contextmanager
def slow(stage: FaultStage) -> Iterator[None]:
    """Make every batch of a pod take ten times as long."""
    with _file(stage, "slow", str(SLOWER)):
        yield


@contextmanager
def cut_off(stage: FaultStage) -> Iterator[None]:
    """Drop all packets to and from a pod."""
    with packets.cut(stage.victim()["status"]["podIP"]):
        yield


@contextmanager
def disk_full(stage: FaultStage) -> Iterator[None]:
    """Fill the only folder that a pod may write to."""
    pod = stage.victim()
    assert stage.execute(pod, FULL).strip() == NO_SPACE
    try:
        yield
    finally:
        stage.execute(pod, "import os; os.unlink('/tmp/full')")


def _dies_of(stage: FaultStage, pod: Object, program: str) -> bool:
    try:
        stage.execute(pod, program)
    except ProgramFailedError:
        return True
    return False


@contextmanager
def _file(stage: FaultStage, name: str, content: str) -> Iterator[None]:
    """Write a control file of the pod's `sitecustomize`."""
    pod = stage.victim()
    stage.execute(pod, f"open('/tmp/{name}', 'w').write('{content}')")
    try:
        yield
    finally:
        stage.execute(pod, f"import os; os.unlink('/tmp/{name}')")


def _containers(pod: Object) -> list[Object]:
    containers: list[Object] = pod["status"].get("containerStatuses", [])
    return containers


@dataclass(slots=True)
class SecondNode:
    """The second node of the stage, created by `prepare`."""

    _node: HostNode | None = None

    @contextmanager
    def prepare(self, stage: FaultStage) -> Iterator[None]:
        """Add the node, and let one of the pool's pods move to it."""
        folder = stage.folder / NAME
        folder.mkdir(exist_ok=True)
        with HostNode(stage.target.api(), NAME, ADDRESS, folder).running() as self._node:
            node = self._node
            until(f"the node {NAME} is Ready", node.ready, seconds=30)
            stage.api.merge(NODE_PATH, {"spec": {"unschedulable": True}})
            try:
                meta = stage.victim()["metadata"]
                where = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                stage.api.delete(where)
                until("its pod serves", lambda: any(map(is_ready, node.pods())), seconds=120)
            finally:
                stage.api.merge(NODE_PATH, {"spec": {"unschedulable": None}})
            stage.await_as_wanted()
            yield

    @contextmanager
    def falls_silent(self, stage: FaultStage) -> Iterator[None]:
        """Stop its kubelet's reports until its pod counts as not ready; the taint would evict it after 300 s."""
        assert self._node is not None
        node = self._node
        node.silent.set()
        try:
            until("the node is NotReady", lambda: not node.ready(), seconds=NOT_READY_SECONDS)
            until("so is its pod", lambda: not any(map(is_ready, node.pods())), seconds=30)
            yield
        finally:
            node.silent.clear()
