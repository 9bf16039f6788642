"""The faults, in the order of the table."""

from tests.bench.faults import of_pods, of_the_cluster
from tests.bench.faults.fault import Fault, Right
from tests.bench.faults.of_nodes import SecondNode
from tests.support.kube.fault_proxy import ProxyFault

MINUTE = 60.0


def all_faults() -> tuple[Fault, ...]:
    """Return every fault."""
    node = SecondNode()
    return (
        Fault("pod killed", of_pods.killed, right=Right.MORE, takes_a_pod=True),
        Fault("container out of memory", of_pods.out_of_memory, right=Right.MORE, takes_a_pod=True),
        Fault(
            "node NotReady", node.falls_silent, 15.0, Right.MORE, prepare=node.prepare
        ),
        Fault("Prometheus dead", of_the_cluster.prometheus_dead, 30.0),
        Fault("Prometheus stale", of_the_cluster.prometheus_stale, 30.0),
        Fault("API server answers 429", of_the_cluster.rejections(ProxyFault.TOO_MANY), MINUTE),
        Fault("API server answers 500", of_the_cluster.rejections(ProxyFault.SERVER_ERROR), MINUTE),
        Fault("watches dropped", of_the_cluster.watches_dropped, 10.0),
        Fault("API server restarted", of_the_cluster.api_server_down, 5.0),
        Fault("etcd slow", of_the_cluster.etcd_slow, 30.0),
        Fault("clock of a pod 5 min ahead", of_pods.clock_ahead, 30.0),
        Fault("clock of a pod 5 min behind", of_pods.clock_behind, 30.0),
        Fault("pod ten times slower", of_pods.slow, 30.0, Right.MORE),
        Fault("network of a pod cut", of_pods.cut_off, 30.0, Right.MORE, takes_a_pod=True),
        Fault("disk of a pod full", of_pods.disk_full, 20.0),
    )  # fmt: skip
