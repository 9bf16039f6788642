"""`make_pod`: the pod for a configuration, with the engine and link of its task."""

from functools import partial

from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.model import Task
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.batch import (
    BatchLink,
    batch_process_link,
    batch_thread_link,
    data_parallel_link,
)
from penstock_runtime.engine.link.thread.inline_policy import MAX_INLINE_SECONDS
from penstock_runtime.engine.machine import keep_to, this_machine
from penstock_runtime.engine.placement import Placement, part_of, seat
from penstock_runtime.loading import load_model, load_part
from penstock_runtime.serving.batch.client import batch_pod
from penstock_runtime.serving.pod import Pod


def make_pod(config: RuntimeConfig, first: LimitsUpdate) -> Pod:
    """Return the pod that serves `config.model`; nothing is loaded yet."""
    if config.model.task is Task.TEXT_GENERATION:
        from penstock_runtime.serving.generation.assembly import generation_pod  # noqa: PLC0415 - 13 MiB that other pods do without

        return generation_pod(config, first)
    return batch_pod(config, engine_link(config, first), first)


def engine_link(config: RuntimeConfig, limits: LimitsUpdate) -> BatchLink:
    """Return the link of an engine placed by the container's cores and devices; may pin this process."""
    engines = config.engine.data_parallel
    wish = config.engine.placement if engines == 1 else Placement.PROCESS
    taken = seat(this_machine(), wish)
    if engines > 1:
        keep_to(taken.http_cpus)
        loads = [
            partial(load_part, config, part_of(taken, index, engines), index, engines)
            for index in range(engines)
        ]
        return data_parallel_link(loads, limits)
    load = partial(load_model, config, taken)
    if taken.placement is Placement.THREAD:
        return batch_thread_link(load, limits, max_inline_seconds=MAX_INLINE_SECONDS)
    keep_to(taken.http_cpus)
    return batch_process_link(load, limits)
