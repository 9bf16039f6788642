"""What loads a model in the engine's own thread or process.

These functions are sent to that process, which imports this module and what it needs: no HTTP library.
"""

import os
from dataclasses import replace
from pathlib import Path

from penstock_api.pod_contract import MAX_RANKS
from penstock_runtime.cgroup import MemoryShare
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.continuous.ranks import StepFollower
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.machine import keep_to
from penstock_runtime.engine.model import Model, ModelLoadFailed
from penstock_runtime.engine.placement import EnginePlacement, RankSeat
from penstock_runtime.logs import configure


def load_part(config: RuntimeConfig, taken: EnginePlacement, index: int, parts: int) -> Model:
    """Load the model of one of `parts` engines, on the device of that `index`, in a process of its own.

    Raises:
        ModelLoadFailed: as `load_model`.
    """
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    devices = visible.split(",") if visible else [str(device) for device in range(MAX_RANKS)]
    os.environ["CUDA_VISIBLE_DEVICES"] = devices[index % len(devices)]
    MemoryShare.parts = parts
    return load_model(config, taken)


def load_model(config: RuntimeConfig, taken: EnginePlacement) -> Model:
    """Load the model, in the engine's own thread or process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _set_up(config, taken)
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


def open_generation(config: RuntimeConfig, folder: Path, taken: EnginePlacement) -> StepExecutor:
    """Load a generative model, in the engine's own thread or process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _prepare(config, taken)
    from penstock_runtime.models.decoders.open import open_step  # noqa: PLC0415 - as above

    return open_step(folder, _options_of(config), config.model_name)


def lead_ranks(
    config: RuntimeConfig, folder: Path, taken: EnginePlacement, own: RankSeat
) -> StepExecutor:
    """Load rank 0 of a generative model, in its own process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    _prepare(config, taken)
    from penstock_runtime.models.decoders.ranks.open import open_leader  # noqa: PLC0415 - as above

    return open_leader(folder, _options_of(config), config.model_name, own)


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


def folder_of(config: RuntimeConfig) -> Path:
    """Return the folder of the model's files."""
    files = config.model.source.files
    return config.files_folder / ((files and files.path) or ".")


def _options_of(config: RuntimeConfig) -> StepOptions:
    """Return the options, with the folders that keep what is measured."""
    shared, private = config.shared_compiled_folder, config.files.compiled_folder
    folders = (private,) if shared is None else (shared, private)
    return replace(config.generation.step, folders=folders)


def _prepare(config: RuntimeConfig, taken: EnginePlacement) -> None:
    """Set up a process that loads a generative model."""
    _set_up(config, taken)
    if config.model.source.files is None:
        raise ModelLoadFailed(
            "spec.model.source has no files: task TextGeneration needs a model's folder"
        )
    from penstock_runtime.models.device.device import pin_threads  # noqa: PLC0415 - as above

    pin_threads(taken.threads)


def _set_up(config: RuntimeConfig, taken: EnginePlacement) -> None:
    configure(config.log.format, config.log.level)
    keep_to(taken.engine_cpus)
