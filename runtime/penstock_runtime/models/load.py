"""From a pool's `spec.model` to a loaded model."""

from dataclasses import replace
from pathlib import Path

from penstock_api.model import ModelSource, ModelSpec
from penstock_api.names import MODEL_FOLDER
from penstock_runtime.models.base import Model, ModelLoadFailed, describe
from penstock_runtime.models.device import pin_threads
from penstock_runtime.models.export_program import load_program
from penstock_runtime.models.module import load_module


def load(spec: ModelSpec, name: str, folder: Path = Path(MODEL_FOLDER)) -> Model:
    """Return the model of `spec`, served as `name`; to be called in the thread that will run it.

    Raises:
        ModelLoadFailed: with one line that names the file or factory and the remedy.
    """
    pin_threads()
    model = _load_source(spec.source, folder)
    try:
        model.info = replace(model.info, name=name)
    except AttributeError as error:
        raise ModelLoadFailed(
            f"{type(model).__name__}.info cannot be set ({describe(error)}): make it a plain attribute"
        ) from error
    return model


def _load_source(source: ModelSource, folder: Path) -> Model:
    if source.persistent_volume_claim is not None:
        return load_program(folder / source.persistent_volume_claim.path)
    if source.module is not None:
        return load_module(source.module.factory, source.module.arguments or {})
    raise ModelLoadFailed(
        f"spec.model.source.type '{source.type}' has no member of its kind:"
        " set persistentVolumeClaim or module"
    )
