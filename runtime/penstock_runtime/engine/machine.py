"""`this_machine`: the resources of this container; also CPU affinity and garbage collection of a process with a model."""

import gc
import os
from collections.abc import Set as AbstractSet

import pynvml

from penstock_runtime.cgroup import cpu_quota
from penstock_runtime.engine.placement import MachineProfile


def this_machine() -> MachineProfile:
    """Return the resources of this container. NVML detects CUDA, since the HTTP side never imports torch."""
    return MachineProfile(
        allowed=frozenset(os.sched_getaffinity(0)),
        online=os.cpu_count() or 1,
        quota=cpu_quota(),
        cuda=_has_cuda(),
    )


def keep_to(cpus: AbstractSet[int]) -> None:
    """Pin this thread, and the threads and processes that it starts from now on, to `cpus`; empty: no pinning."""
    if cpus:
        os.sched_setaffinity(0, cpus)


def _has_cuda() -> bool:
    try:
        pynvml.nvmlInit()
        return bool(pynvml.nvmlDeviceGetCount() > 0)
    except pynvml.NVMLError:
        return False


def spare_the_collector() -> None:
    """Exclude the loaded objects from garbage collection, and collect rarely.

    A full pass over torch's objects takes 100 ms, and requests create no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
