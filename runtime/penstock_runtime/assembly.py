"""From the environment's word to a pod: which engine, behind which link, serves which task.

What only a generating pod needs is imported for one: 13 MiB that other pods do without.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock_api.limits import LimitsUpdate
from penstock_api.model import Task
from penstock_runtime.config import Config
from penstock_runtime.loading import engine_link
from penstock_runtime.models.base import ModelLoadFailed
from penstock_runtime.pod import Pod

if TYPE_CHECKING:
    from penstock_runtime.generation.stepping import Step


def make_pod(config: Config, first: LimitsUpdate) -> Pod:
    """Return the pod that serves `config.model`; nothing is loaded yet."""
    if config.model.task is Task.TEXT_GENERATION:
        return _generation_pod(config, first)
    return Pod(config, engine_link(config, first), first)


def _generation_pod(config: Config, first: LimitsUpdate) -> Pod:
    from penstock_runtime.grammar.source import SharedGrammars  # noqa: PLC0415 - as said above
    from penstock_runtime.link.generation_thread import GenerationThreadLink  # noqa: PLC0415
    from penstock_runtime.streams.face import generation_limits  # noqa: PLC0415
    from penstock_runtime.streams.pod import GenerationPod  # noqa: PLC0415

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
    claim = config.model.source.persistent_volume_claim
    return config.model_folder / (claim.path if claim is not None else ".")


def _open_step(config: Config, folder: Path) -> "Step":
    """Load a generative model, in the thread that will run it."""
    if config.model.source.persistent_volume_claim is None:
        raise ModelLoadFailed(
            "spec.model.source has no persistentVolumeClaim: task TextGeneration needs a model's folder"
        )
    from penstock_runtime.generation.step.open import open_step  # noqa: PLC0415 - torch takes seconds; 8001 answers meanwhile
    from penstock_runtime.models.device import pin_threads  # noqa: PLC0415

    pin_threads()
    return open_step(folder, config.generation, config.model_name)
