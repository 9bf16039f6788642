"""The faults, in the order of the table."""

from tests.bench.faults import cluster_faults, pod_faults
from tests.bench.faults.fault import Fault, Right
from tests.support.kube.faults.fault_proxy import ProxyFault

MINUTE = 60.0


def all_faults() -> tuple[Fault, ...]:
    """Return every fault."""
    node = pod_faults.SecondNode()
    return (
        Fault("pod killed", pod_faults.killed, right=Right.MORE, takes_a_pod=True),
        Fault("container out of memory", pod_faults.out_of_memory, right=Right.MORE, takes_a_pod=True),
        Fault(
            "node NotReady", node.falls_silent, 15.0, Right.MORE, prepare=node.prepare
        ),
        Fault("Prometheus dead", cluster_faults.prometheus_dead, 30.0),
        Fault("Prometheus stale", cluster_faults.prometheus_stale, 30.0),
        Fault("API server answers 429", cluster_faults.rejections(ProxyFault.TOO_MANY), MINUTE),
        Fault("API server answers 500", cluster_faults.rejections(ProxyFault.SERVER_ERROR), MINUTE),
        Fault("watches dropped", cluster_faults.watches_dropped, 10.0),
        Fault("API server restarted", cluster_faults.api_server_down, 5.0),
        Fault("etcd slow", cluster_faults.etcd_slow, 30.0),
        Fault("clock of a pod 5 min ahead", pod_faults.clock_ahead, 30.0),
        Fault("clock of a pod 5 min behind", pod_faults.clock_behind, 30.0),
        Fault("pod ten times slower", pod_faults.slow, 30.0, Right.MORE),
        Fault("network of a pod cut", pod_faults.cut_off, 30.0, Right.MORE, takes_a_pod=True),
        Fault("disk of a pod full", pod_faults.disk_full, 20.0),
    )  # fmt: skip
