"""Removal of a test cluster from the machine: processes, mounts, networks, rules, folders."""

import shutil
import time
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.commands import CommandFailedError
from tests.support.cluster.host import kernel, network, processes, sandbox
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
"""Fixed socket folders of containerd's shims and the kubelet; no setting moves them."""
CNI_RESULTS = Path("/var/lib/cni/results")
LOG_LINKS = Path("/var/log/containers")
STRAY_SECONDS = 10.0


def clear(places: Places) -> None:
    """Remove a complete, partial or crashed cluster; the kubelet ends first and the API server last.

    Network and pods are shared by the machine: those of another cache's cluster stay.
    """
    theirs = shutil.which("ip") and network.holder() not in (None, "", str(places.cache))
    processes_by_name = processes.recorded(places.run)
    if processes_by_name:
        say(f"ending {len(processes_by_name)} parts")
    _end(processes_by_name, "kubelet")
    if not theirs:
        kernel.end_cgroups()
    _forget(places, processes_by_name)
    for name in PATIENCE_SECONDS:
        _end(processes_by_name, name)
    _end_strays(places)
    kernel.unmount_under(places.run)
    kernel.unmount_under(places.containerd)
    if not theirs:
        kernel.end_cgroups()
    if not theirs and shutil.which("iptables-save"):
        network.drop_rules()
        network.drop_bridge()
    shutil.rmtree(places.run, ignore_errors=True)
    _clear_fixed_places(places, with_network=not theirs)


def _clear_fixed_places(places: Places, *, with_network: bool) -> None:
    """Remove the files that the parts write to fixed paths."""
    for folder in SOCKET_FOLDERS:
        kernel.remove_dead_sockets(folder)
    for result in CNI_RESULTS.glob(f"{settings.BRIDGE}-*-eth0") if with_network else ():
        container = result.name.removeprefix(f"{settings.BRIDGE}-").removesuffix("-eth0")
        (CNI_RESULTS / f"cni-loopback-{container}-lo").unlink(missing_ok=True)
        result.unlink()
    for link in LOG_LINKS.glob("*.log"):
        if link.readlink().is_relative_to(places.run):
            link.unlink()
    for folder in (*SOCKET_FOLDERS, CNI_RESULTS):
        kernel.remove_if_empty(folder)


def _end(recorded: dict[str, processes.Recorded], name: str) -> None:
    if name in recorded:
        processes.end(recorded[name], grace_seconds=PATIENCE_SECONDS[name])


def _end_strays(places: Places) -> None:
    """Kill containerd's shims, and processes that an interrupted start did not record."""
    deadline = time.monotonic() + STRAY_SECONDS
    while time.monotonic() < deadline:
        strays = processes.strays(places.tools, places.run)
        if not strays:
            return
        for pid in strays:
            kernel.kill(pid)
        time.sleep(0.05)


def _forget(places: Places, recorded: dict[str, processes.Recorded]) -> None:
    client = places.commands / "ctr"
    if client.exists() and "containerd" in recorded and recorded["containerd"].alive:
        try:
            sandbox.forget_pods(places, client.parent)
        except CommandFailedError as error:
            say(f"containerd keeps its pods until the next start: {error}")
