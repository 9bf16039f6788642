"""`generation_pod`: a generating pod, with its engine in a thread or a process."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.continuous.ranks import StepFollower
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.link.generation import (
    GenerationLink,
    generation_process_link,
    generation_thread_link,
)
from penstock_runtime.engine.link.ranks import ranked_link
from penstock_runtime.engine.machine import keep_to, this_machine
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import (
    EnginePlacement,
    Placement,
    RankSeat,
    seat,
    step_depth,
)
from penstock_runtime.logs import configure
from penstock_runtime.serving.generation.client import GenerationPod, make_generation_pod


def generation_pod(config: RuntimeConfig, first: LimitsUpdate) -> GenerationPod:
    """Place the engine by the container's cores and devices; may pin this process."""
    folder = _folder(config)
    machine = this_machine()
    taken, depth = (
        seat(machine, config.engine.placement),
        step_depth(machine, config.generation.step.depth),
    )
    load = partial(open_generation, config, folder, taken)
    link: GenerationLink
    options = config.generation.step
    if options.ranks > 1:
        keep_to(taken.http_cpus)
        shared = replace(taken, threads=max(1, taken.threads // options.ranks))
        lead = partial(lead_ranks, config, folder, shared)
        follow = partial(follow_ranks, config, folder, shared)
        link = ranked_link(lead, follow, options, first, depth=depth)
    elif taken.placement is Placement.THREAD:
        link = generation_thread_link(load, first, depth=depth)
    else:
        keep_to(taken.http_cpus)
        link = generation_process_link(load, first, depth=depth)
    return make_generation_pod(config, link, folder, first)


def _folder(config: RuntimeConfig) -> Path:
    files = config.model.source.files
    return config.files_folder / ((files and files.path) or ".")


def open_generation(config: RuntimeConfig, folder: Path, taken: EnginePlacement) -> StepExecutor:
    """Load a generative model, in the engine's own thread or process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _prepare(config, taken)
    from penstock_runtime.models.decoders.open import open_step  # noqa: PLC0415 - torch takes seconds; 8001 answers meanwhile

    return open_step(folder, _options(config), config.model_name)


def lead_ranks(
    config: RuntimeConfig, folder: Path, taken: EnginePlacement, own: RankSeat
) -> StepExecutor:
    """Load rank 0 of a generative model, in its own process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _prepare(config, taken)
    from penstock_runtime.models.decoders.ranks.open import open_leader  # noqa: PLC0415 - as above

    return open_leader(folder, _options(config), config.model_name, own)


def follow_ranks(
    config: RuntimeConfig, folder: Path, taken: EnginePlacement, own: RankSeat
) -> StepFollower:
    """Load another rank of a generative model, in its own process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _prepare(config, taken)
    from penstock_runtime.models.decoders.ranks.open import open_follower  # noqa: PLC0415 - as above

    return open_follower(folder, config.generation.step, own)


def _options(config: RuntimeConfig) -> StepOptions:
    """Return the options, with the folders that keep what is measured."""
    shared, private = config.shared_compiled_folder, config.files.compiled_folder
    folders = (private,) if shared is None else (shared, private)
    return replace(config.generation.step, folders=folders)


def _prepare(config: RuntimeConfig, taken: EnginePlacement) -> None:
    """Set up a process that loads a model."""
    configure(config.log.format, config.log.level)
    keep_to(taken.engine_cpus)
    if config.model.source.files is None:
        raise ModelLoadFailed(
            "spec.model.source has no files: task TextGeneration needs a model's folder"
        )
    from penstock_runtime.models.device.device import pin_threads  # noqa: PLC0415 - torch takes seconds

    pin_threads(taken.threads)
