"""Kernel state of the cluster: control groups and mounts."""

import os
import signal
import time
from pathlib import Path

from tests.support.cluster import settings
from tests.support.cluster.commands import quietly

CGROUPS = Path("/sys/fs/cgroup")
CPUSET_FILES = ("cpuset.cpus", "cpuset.mems")


def raise_cgroups() -> None:
    """Create the group above all pods in every hierarchy; the kubelet refuses to start without it."""
    for root in _hierarchies():
        group = root / settings.CGROUP
        group.mkdir(exist_ok=True)
        for (
            name
        ) in CPUSET_FILES:  # cgroup v1: a child of a group without processors can hold no process
            if (group / name).exists() and not (group / name).read_text().strip():
                (group / name).write_text((root / name).read_text())


def end_cgroups() -> None:
    """Kill every process of every pod, then remove the groups."""
    deadline = time.monotonic() + 10
    while (pids := _members()) and time.monotonic() < deadline:
        for pid in pids:
            kill(pid)
        time.sleep(0.05)
    for root in _groups():
        for folder, _, _ in os.walk(root, topdown=False):
            _remove(Path(folder))


def leftover_cgroups() -> list[Path]:
    """Return the cluster's control groups that exist."""
    return _groups()


def mounts_under(folder: Path) -> list[str]:
    """Return the mount points under a folder, the innermost first."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [line.split()[4].encode().decode("unicode_escape") for line in lines]
    return sorted((point for point in points if point.startswith(f"{folder}/")), reverse=True)


def unmount_under(folder: Path) -> None:
    """Unmount all that pods and images have mounted under a folder."""
    for point in mounts_under(folder):
        quietly(["umount", "-l", point])


def _hierarchies() -> list[Path]:
    if (CGROUPS / "cgroup.controllers").exists():
        return [CGROUPS]
    return [
        path
        for path in CGROUPS.iterdir()
        if (path / "cgroup.procs").exists() and not path.is_symlink()
    ]


def _groups() -> list[Path]:
    return [root / settings.CGROUP for root in _hierarchies() if (root / settings.CGROUP).is_dir()]


def _members() -> set[int]:
    pids: set[int] = set()
    for group in _groups():
        for folder, _, _ in os.walk(group):
            try:
                pids.update(int(pid) for pid in (Path(folder) / "cgroup.procs").read_text().split())
            except OSError:
                continue
    return pids


def pod_processes(uid: str) -> set[int]:
    """Return the ids of the processes of one pod, its sandbox's included."""
    pids: set[int] = set()
    for group in _groups():
        for folder, _, _ in os.walk(group):
            if uid in folder:
                try:
                    text = (Path(folder) / "cgroup.procs").read_text()
                except OSError:
                    continue
                pids.update(int(pid) for pid in text.split())
    return pids


def _remove(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # a process that is still exiting holds it; the next `up` reuses it


def kill(pid: int) -> None:
    """Kill a process; one that is gone is as good."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def remove_dead_sockets(folder: Path) -> None:
    """Remove the socket files that no process listens on; other containerds' stay."""
    bound = {line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines()}
    for file in folder.glob("*") if folder.is_dir() else ():
        if file.is_socket() and str(file) not in bound:
            file.unlink()


def remove_if_empty(folder: Path) -> None:
    """Remove a folder that the parts made by a fixed name, and its parent, where nothing else is in them."""
    for path in (folder, folder.parent):
        _remove(path)
