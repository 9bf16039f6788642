"""`this_machine`: the resources of this container as the kernel and the driver report them.

Python's garbage collector in a process that holds a model.
"""

import gc
import os
from collections.abc import Set as AbstractSet

import pynvml

from penstock_runtime.cgroup import cpu_quota
from penstock_runtime.engine.placement import MachineProfile


def this_machine() -> MachineProfile:
    """Return the resources of this container. CUDA is detected by the driver: the HTTP side never imports torch."""
    return MachineProfile(
        allowed=frozenset(os.sched_getaffinity(0)),
        online=os.cpu_count() or 1,
        quota=cpu_quota(),
        cuda=_has_cuda(),
    )


def keep_to(cpus: AbstractSet[int]) -> None:
    """Run this thread, and every thread and process that it starts from now on, on `cpus` alone; empty: anywhere."""
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

    A full pass over torch's objects takes 100 ms, and a request makes no cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)
