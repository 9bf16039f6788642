"""CPU and memory limits of the container, from its control group (kernel documentation: cgroup-v2, cgroup-v1)."""

from pathlib import Path
from typing import ClassVar

CGROUP = Path("/sys/fs/cgroup")
MEMINFO = Path("/proc/meminfo")
_NO_LIMIT = 1 << 60
"""Lower bound of the number near 2^63 that cgroup v1 writes for "no limit"."""


def cpu_quota(root: Path = CGROUP) -> float | None:
    """Return the CPU limit of the container, or None if there is none."""
    unified = _words(root / "cpu.max")
    if unified:
        return None if unified[0] == "max" else int(unified[0]) / int(unified[1])
    quota = _number(root / "cpu" / "cpu.cfs_quota_us")
    period = _number(root / "cpu" / "cpu.cfs_period_us")
    return quota / period if quota is not None and quota > 0 and period else None


class MemoryShare:
    """The share of this process in the free memory of its container."""

    parts: ClassVar[int] = 1
    """Engines that divide the memory, each in a process of its own; set before one loads its model."""


def free_memory_bytes(root: Path = CGROUP, meminfo: Path = MEMINFO) -> int:
    """Return the bytes that can be allocated: the cgroup's limit minus its working set, at most the machine's free memory.

    Several engines of a container have equal parts of it.
    """
    machine = _field(meminfo, "MemAvailable:") * 1024
    limit, used = _limit_and_working_set(root)
    free = machine if limit is None else max(0, min(machine, limit - used))
    return free // MemoryShare.parts


def _limit_and_working_set(root: Path) -> tuple[int | None, int]:
    """Return both; reclaimable page cache (`inactive_file`) is not in the working set, as in the kubelet."""
    if (root / "memory.max").exists():
        limit, used = _number(root / "memory.max"), _number(root / "memory.current")
        droppable = _field(root / "memory.stat", "inactive_file")
    else:
        folder = root / "memory"
        limit = _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.usage_in_bytes")
        droppable = _field(folder / "memory.stat", "total_inactive_file")
    if limit is None or limit >= _NO_LIMIT:
        return None, 0
    return limit, max(0, (used or 0) - droppable)


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []


def _number(file: Path) -> int | None:
    words = _words(file)
    return int(words[0]) if words and words[0].lstrip("-").isdigit() else None


def _field(file: Path, name: str) -> int:
    """Return the number after `name`, or 0."""
    words = _words(file)
    return int(words[words.index(name) + 1]) if name in words else 0
