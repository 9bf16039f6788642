"""From the environment's word to a pod: which engine, behind which link, serves which task."""

from pathlib import Path

from penstock_api.limits import LimitsUpdate
from penstock_api.model import Task
from penstock_runtime.config import Config
from penstock_runtime.generation.stepping import Step
from penstock_runtime.grammar.source import SharedGrammars
from penstock_runtime.link.generation_thread import GenerationThreadLink
from penstock_runtime.loading import engine_link
from penstock_runtime.models.base import ModelLoadFailed
from penstock_runtime.pod import Pod
from penstock_runtime.streams.face import generation_limits
from penstock_runtime.streams.pod import GenerationPod


def make_pod(config: Config, first: LimitsUpdate) -> Pod:
    """Return the pod that serves `config.model`; nothing is loaded yet."""
    if config.model.task is Task.TEXT_GENERATION:
        return _generation_pod(config, first)
    return Pod(config, engine_link(config, first), first)


def _generation_pod(config: Config, first: LimitsUpdate) -> GenerationPod:
    folder = _folder(config)
    grammars = SharedGrammars(folder)
    link = GenerationThreadLink(
        lambda: _open_step(config, folder),
        generation_limits(first),
        grammars.of,
        depth=config.generation.depth,
    )
    return GenerationPod(config, link, grammars, first)


def _folder(config: Config) -> Path:
    files = config.model.source.files
    return config.files_folder / ((files and files.path) or ".")


def _open_step(config: Config, folder: Path) -> Step:
    """Load a generative model, in the thread that will run it."""
    if config.model.source.files is None:
        raise ModelLoadFailed(
            "spec.model.source has no files: task TextGeneration needs a model's folder"
        )
    from penstock_runtime.generation.step.open import open_step  # noqa: PLC0415 - torch takes seconds; 8001 answers meanwhile
    from penstock_runtime.models.device import pin_threads  # noqa: PLC0415

    pin_threads()
    return open_step(folder, config.generation, config.model_name)
