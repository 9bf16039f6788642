"""`load`: loads the model of a pool's `spec.model`."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from penstock_api.names import MODEL_FOLDER
from penstock_api.pod_contract import ModelBackendState
from penstock_api.types.model import ModelBackend, ModelSpec, Task
from penstock_runtime.config import FilesConfig
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed, describe
from penstock_runtime.models.backends.cache import CompiledCache, key_of
from penstock_runtime.models.backends.selection import Loader, backends_for, on_native
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.device.device import pin_threads
from penstock_runtime.models.device.malloc import keep_freed_memory
from penstock_runtime.models.device.processor import this_processor
from penstock_runtime.models.export_program import ProgramSource
from penstock_runtime.models.precision import is_narrow
from penstock_runtime.models.program_files import OnnxSource, OpenVinoSource
from penstock_runtime.models.python_factory import open_factory
from penstock_runtime.models.torch_model import TorchModel, Wrapping

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Execution options of a model."""

    threads: int | None = None
    """Number of torch threads; None: the CPU limit of the cgroup."""
    dtype: DType = DType.AUTO
    """Requested data type; the tensors of a program or module keep the declared ones."""
    compile: bool = False
    """Whether to use torch.compile in this process, which needs a C++ compiler (CPU) and tens of seconds per model; only
    models that are a plain torch call are compiled. A backend in the model's spec takes precedence."""
    cache_folder: Path | None = None
    """Where compiled models are kept next to the model; None: `private_folder` only."""
    private_folder: Path = FilesConfig().compiled_folder
    """Where compiled models are kept that contain code, or whose model is on a read-only volume."""


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
    opened = _open(spec, folder, options.dtype)
    model = _on_backend(opened, spec, options)
    try:
        model.info = replace(model.info, name=name)
    except AttributeError as error:
        raise ModelLoadFailed(
            f"{type(model).__name__}.info cannot be set ({describe(error)}): make it a plain attribute"
        ) from error
    return model


def _open(spec: ModelSpec, folder: Path, dtype: DType) -> Source | Model:
    source, task = spec.source, spec.task or Task.TENSOR
    if source.files is not None:
        path = folder / (source.files.path or ".")
        if task is Task.TENSOR:
            return _open_file(path, dtype)
        return _open_encoder(path, task, dtype)
    if source.module is not None:
        return open_factory(source.module.factory, source.module.arguments or {}, dtype)
    raise ModelLoadFailed(
        f"spec.model.source.type '{source.type}' has no matching member:"
        " set the member for this type"
    )


def _open_file(path: Path, dtype: DType) -> Source:
    threads = torch.get_num_threads()
    match path.suffix:
        case ".onnx":
            return OnnxSource(path, threads, dtype)
        case ".xml":
            return OpenVinoSource(path, threads, dtype)
        case _:
            return ProgramSource(path, dtype)


def _open_encoder(folder: Path, task: Task, dtype: DType) -> Source:
    from penstock_runtime.models.encoders.source import (  # noqa: PLC0415 - imports transformers on demand
        EncoderSource,
    )

    return EncoderSource(folder, task, dtype)


def _on_backend(opened: Source | Model, spec: ModelSpec, options: ModelOptions) -> Model:
    wanted = spec.backend
    if not isinstance(opened, Source):
        if wanted not in (None, ModelBackend.AUTO, ModelBackend.EAGER):
            raise ModelLoadFailed(
                f"backend {wanted} cannot run the model: its factory returns a Model of its own code, not a"
                " torch.nn.Module: remove spec.model.backend"
            )
        if is_narrow(options.dtype):
            raise ModelLoadFailed(
                f"the model does not compute in {options.dtype}: its factory returns a Model of its own code, not a"
                " torch.nn.Module: remove spec.model.dtype"
            )
        return opened
    on_gpu = opened.device.type != "cpu"
    if wanted is None and is_narrow(opened.dtype) and opened.native is not ModelBackend.EAGER:
        wanted = opened.native
    if wanted is None or (wanted is ModelBackend.COMPILE and on_gpu):
        model = on_native(opened, ModelBackendState(name=wanted or opened.native))
        if options.compile or wanted is not None:
            _compile(model)
        return model
    threads = torch.get_num_threads()

    def key() -> str:
        digest = f"{opened.dtype} {opened.digest()}"
        return key_of(digest, spec.task or Task.TENSOR, threads, this_processor())

    shared = options.cache_folder or options.private_folder
    cache = CompiledCache(shared, options.private_folder, key)
    backends = backends_for(opened.dtype)
    return Loader(opened, cache, threads, backends=backends).load(wanted)


def _compile(model: Model) -> None:
    compilable = model.inner if isinstance(model, Wrapping) else model
    if isinstance(compilable, TorchModel):
        compilable.compile()
    else:  # a packed text encoder, or a custom model from a factory
        log.warning("%s is not compiled: torch.compile does not support it", type(model).__name__)
