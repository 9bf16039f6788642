"""Load the ranks of a generative model in their processes."""

from dataclasses import replace
from pathlib import Path

from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.continuous.ranks import StepFollower
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import StepOptions
from penstock_runtime.engine.machine import keep_to
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import EnginePlacement, RankSeat
from penstock_runtime.logs import configure


def folder_of(config: RuntimeConfig) -> Path:
    """Return the folder of the model's files."""
    files = config.model.source.files
    return config.files_folder / ((files and files.path) or ".")


def lead_ranks(
    config: RuntimeConfig, folder: Path, taken: EnginePlacement, own: RankSeat
) -> StepExecutor:
    """Load rank 0 of a generative model, in its own process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    prepare(config, taken)
    from penstock_runtime.models.decoders.ranks.open import open_leader  # noqa: PLC0415 - as above

    return open_leader(folder, options_of(config), config.model_name, own)


def follow_ranks(
    config: RuntimeConfig, folder: Path, taken: EnginePlacement, own: RankSeat
) -> StepFollower:
    """Load another rank of a generative model, in its own process.

    Raises:
        ModelLoadFailed: with a one-line reason.
    """
    prepare(config, taken)
    from penstock_runtime.models.decoders.ranks.open import open_follower  # noqa: PLC0415 - as above

    return open_follower(folder, config.generation.step, own)


def options_of(config: RuntimeConfig) -> StepOptions:
    """Return the options, with the folders that keep what is measured."""
    shared, private = config.shared_compiled_folder, config.files.compiled_folder
    folders = (private,) if shared is None else (shared, private)
    return replace(config.generation.step, folders=folders)


def prepare(config: RuntimeConfig, taken: EnginePlacement) -> None:
    """Set up a process that loads a model."""
    configure(config.log.format, config.log.level)
    keep_to(taken.engine_cpus)
    if config.model.source.files is None:
        raise ModelLoadFailed(
            "spec.model.source has no files: task TextGeneration needs a model's folder"
        )
    from penstock_runtime.models.device.device import pin_threads  # noqa: PLC0415 - torch takes seconds

    pin_threads(taken.threads)
