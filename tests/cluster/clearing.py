"""Taking a cluster away, so that nothing of it is left: processes, mounts, networks, rules, folders."""

import shutil
from pathlib import Path

from tests.cluster import kernel, network, processes, sandbox, settings
from tests.cluster.commands import CommandFailedError
from tests.cluster.places import Places
from tests.cluster.progress import say

STOP_ORDER = (
    "kubelet",
    "containerd",
    "coredns",
    "kube-proxy",
    "kube-scheduler",
    "kube-controller-manager",
)
SOCKET_FOLDERS = (Path("/run/containerd/s"), Path("/var/lib/kubelet/device-plugins"))
"""Where containerd's shims and the kubelet put sockets whatever they are told."""
CNI_RESULTS = Path("/var/lib/cni/results")
LOG_LINKS = Path("/var/log/containers")


def clear(places: Places) -> None:
    """Remove a cluster, whole, half or crashed, the kubelet first and the API server last."""
    found = processes.recorded(places.run)
    if found:
        say(f"ending {len(found)} parts")
    for name in STOP_ORDER[:1]:
        _end(found, name, 5)
    kernel.end_cgroups()
    _forget(places, found)
    for name in STOP_ORDER[1:]:
        _end(found, name, 5)
    for pid in processes.with_words(str(places.containerd_socket)):
        kernel.kill(pid)
    for name in [name for name in found if name not in STOP_ORDER]:
        _end(
            found, name, 0.5
        )  # a stopping API server holds its port for a minute while watches are open
    kernel.unmount_under(places.run)
    kernel.unmount_under(places.containerd)
    kernel.end_cgroups()
    if shutil.which("iptables-save"):
        network.drop_rules()
        network.drop_bridge()
    shutil.rmtree(places.run, ignore_errors=True)
    _clear_fixed_places(places)


def _clear_fixed_places(places: Places) -> None:
    """Remove what the parts put where no setting moves it."""
    for folder in SOCKET_FOLDERS:
        kernel.remove_dead_sockets(folder)
    for result in CNI_RESULTS.glob(f"{settings.BRIDGE}-*"):
        result.unlink()
    for link in LOG_LINKS.glob("*.log"):
        if link.readlink().is_relative_to(places.run):
            link.unlink()
    for folder in (*SOCKET_FOLDERS, CNI_RESULTS):
        kernel.remove_if_empty(folder)


def _end(found: dict[str, processes.Recorded], name: str, grace_seconds: float) -> None:
    if name in found:
        processes.end(found[name], grace_seconds=grace_seconds)


def _forget(places: Places, found: dict[str, processes.Recorded]) -> None:
    client = places.commands / "ctr"
    if client.exists() and "containerd" in found and found["containerd"].alive:
        try:
            sandbox.forget_pods(places, client.parent)
        except CommandFailedError as error:
            say(f"containerd keeps its pods until the next start: {error}")
