"""The fault of a NotReady node: its kubelet is fake, and its pod is a real runtime that keeps serving."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench.faults.stage import FaultStage
from tests.support.cluster.settings import NODE_NAME
from tests.support.kube.host_node import HostNode
from tests.support.kube.pools import is_ready, until

NAME, ADDRESS = "host", "10.245.0.2"
NODE_PATH = f"/api/v1/nodes/{NODE_NAME}"
NOT_READY_SECONDS = 120
"""Timeout; the node controller waits 50 s for a node's heartbeat (--node-monitor-grace-period)."""


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
