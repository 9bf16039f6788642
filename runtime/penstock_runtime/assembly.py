"""`make_pod`: the pod for a configuration, with the engine and link of its task.

`load_model` is sent to the engine's process, so it is a module-level function.
"""

import os
from functools import partial

from penstock_api.pod_contract import MAX_RANKS, LimitsUpdate
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
from penstock_runtime.engine.model import Model
from penstock_runtime.engine.placement import EnginePlacement, Placement, part_of, seat
from penstock_runtime.logs import configure
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
            partial(load_part, config, part_of(taken, index, engines), index)
            for index in range(engines)
        ]
        return data_parallel_link(loads, limits)
    load = partial(load_model, config, taken)
    if taken.placement is Placement.THREAD:
        return batch_thread_link(load, limits, max_inline_seconds=MAX_INLINE_SECONDS)
    keep_to(taken.http_cpus)
    return batch_process_link(load, limits)


def load_part(config: RuntimeConfig, taken: EnginePlacement, index: int) -> Model:
    """Load the model of one of several engines, on the device of that `index`.

    Raises:
        ModelLoadFailed: as `load_model`.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = visible.split(",") if visible else [str(device) for device in range(MAX_RANKS)]
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[index % len(devices)]
    return load_model(config, taken)


def load_model(config: RuntimeConfig, taken: EnginePlacement) -> Model:
    """Load the model, in the engine's own thread or process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    configure(config.log.format, config.log.level)
    keep_to(taken.engine_cpus)
    from penstock_runtime.models.load import (  # noqa: PLC0415 - torch takes seconds; 8001 answers meanwhile
        ModelOptions,
        load,
    )

    options = ModelOptions(
        taken.threads,
        config.engine.dtype,
        compile=config.engine.compile,
        cache_folder=config.shared_compiled_folder,
        private_folder=config.files.compiled_folder,
    )
    return load(config.model, config.model_name, config.files_folder, options)
