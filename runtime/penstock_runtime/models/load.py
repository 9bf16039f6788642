"""`load`: loads the model of a pool's `spec.model`."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

from penstock_api.names import MODEL_FOLDER
from penstock_api.types.model import ModelSpec, Task
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed, describe
from penstock_runtime.models.device.device import pin_threads
from penstock_runtime.models.device.malloc import keep_freed_memory
from penstock_runtime.models.export_program import load_program
from penstock_runtime.models.python_factory import load_from_factory
from penstock_runtime.models.torch_model import TorchModel, Wrapping

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Execution options of a model."""

    threads: int | None = None
    """Number of torch threads; None: the CPU limit of the cgroup."""
    dtype: DType = DType.AUTO
    """Data type of an encoder."""
    compile: bool = False
    """Whether to use torch.compile, which needs a C++ compiler (CPU) and tens of seconds per model; only models
    that are a plain torch call are compiled."""


def load(
    spec: ModelSpec,
    name: str,
    folder: Path = Path(MODEL_FOLDER),
    options: ModelOptions = ModelOptions(),
) -> Model:
    """Return the model of `spec`, served as `name`; must be called in the thread that runs it.

    Raises:
        ModelLoadFailed: the message has one line and names the file or factory and the remedy.
    """
    pin_threads(options.threads)
    keep_freed_memory()
    model = _load_source(spec, folder, options.dtype)
    if options.compile:
        _compile(model)
    try:
        model.info = replace(model.info, name=name)
    except AttributeError as error:
        raise ModelLoadFailed(
            f"{type(model).__name__}.info cannot be set ({describe(error)}): make it a plain attribute"
        ) from error
    return model


def _load_source(spec: ModelSpec, folder: Path, dtype: DType) -> Model:
    source, task = spec.source, spec.task or Task.TENSOR
    if source.files is not None:
        path = folder / (source.files.path or ".")
        return load_program(path) if task is Task.TENSOR else _load_encoder(path, task, dtype)
    if source.module is not None:
        return load_from_factory(source.module.factory, source.module.arguments or {})
    raise ModelLoadFailed(
        f"spec.model.source.type '{source.type}' has no matching member:"
        " set the member for this type"
    )


def _load_encoder(folder: Path, task: Task, dtype: DType) -> Model:
    from penstock_runtime.models.encoders.load import (  # noqa: PLC0415 - imports transformers on demand
        load_encoder,
    )

    return load_encoder(folder, task, dtype)


def _compile(model: Model) -> None:
    compilable = model.inner if isinstance(model, Wrapping) else model
    if isinstance(compilable, TorchModel):
        compilable.compile()
    else:  # a packed text encoder, or a custom model from a factory
        log.warning("%s is not compiled: torch.compile does not support it", type(model).__name__)
