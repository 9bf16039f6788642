"""Taking a cluster away, so that nothing of it is left: processes, mounts, networks, rules, folders."""

import shutil
import time
from pathlib import Path

from tests.support.cluster import kernel, network, processes, sandbox, settings
from tests.support.cluster.commands import CommandFailedError
from tests.support.cluster.places import Places
from tests.support.cluster.progress import say

PATIENCE_SECONDS = {
    "kubelet": 5.0,
    "containerd": 5.0,
    "coredns": 5.0,
    "kube-proxy": 5.0,
    "kube-scheduler": 5.0,
    "kube-controller-manager": 5.0,
    "etcd": 0.5,
    "kube-apiserver": 0.5,  # stopping, it holds its port for a minute while watches are open
}
"""The order of stopping, and how long each part may take."""
SOCKET_FOLDERS = (Path("/run/containerd/s"), Path("/var/lib/kubelet/device-plugins"))
"""Where containerd's shims and the kubelet put sockets whatever they are told."""
CNI_RESULTS = Path("/var/lib/cni/results")
LOG_LINKS = Path("/var/log/containers")
STRAY_SECONDS = 10.0


def clear(places: Places) -> None:
    """Remove a cluster, whole, half or crashed, the kubelet first and the API server last.

    The network and the pods are the machine's: another cache's cluster keeps its own.
    """
    theirs = shutil.which("ip") and network.holder() not in (None, "", str(places.cache))
    found = processes.recorded(places.run)
    if found:
        say(f"ending {len(found)} parts")
    _end(found, "kubelet")
    if not theirs:
        kernel.end_cgroups()
    _forget(places, found)
    for name in PATIENCE_SECONDS:
        _end(found, name)
    _end_strays(places)
    kernel.unmount_under(places.run)
    kernel.unmount_under(places.containerd)
    if not theirs:
        kernel.end_cgroups()
    if not theirs and shutil.which("iptables-save"):
        network.drop_rules()
        network.drop_bridge()
    shutil.rmtree(places.run, ignore_errors=True)
    _clear_fixed_places(places)


def _clear_fixed_places(places: Places) -> None:
    """Remove what the parts put where no setting moves it."""
    for folder in SOCKET_FOLDERS:
        kernel.remove_dead_sockets(folder)
    for result in CNI_RESULTS.glob(f"{settings.BRIDGE}-*-eth0"):
        container = result.name.removeprefix(f"{settings.BRIDGE}-").removesuffix("-eth0")
        (CNI_RESULTS / f"cni-loopback-{container}-lo").unlink(missing_ok=True)
        result.unlink()
    for link in LOG_LINKS.glob("*.log"):
        if link.readlink().is_relative_to(places.run):
            link.unlink()
    for folder in (*SOCKET_FOLDERS, CNI_RESULTS):
        kernel.remove_if_empty(folder)


def _end(found: dict[str, processes.Recorded], name: str) -> None:
    if name in found:
        processes.end(found[name], grace_seconds=PATIENCE_SECONDS[name])


def _end_strays(places: Places) -> None:
    """Kill containerd's shims, and what a start that was cut short did not come to record."""
    deadline = time.monotonic() + STRAY_SECONDS
    while time.monotonic() < deadline:
        strays = processes.strays(places.tools, places.run)
        if not strays:
            return
        for pid in strays:
            kernel.kill(pid)
        time.sleep(0.05)


def _forget(places: Places, found: dict[str, processes.Recorded]) -> None:
    client = places.commands / "ctr"
    if client.exists() and "containerd" in found and found["containerd"].alive:
        try:
            sandbox.forget_pods(places, client.parent)
        except CommandFailedError as error:
            say(f"containerd keeps its pods until the next start: {error}")
