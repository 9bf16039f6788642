"""`EncoderSource`: a text encoder in a directory, before a backend is selected."""

from functools import cached_property
from pathlib import Path

import torch
import transformers
from typing_extensions import override

from penstock_api.types.model import ModelBackend, Task
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model, ModelLoadFailed, describe
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import BackendFailed, Program
from penstock_runtime.models.backends.cache import digest_of
from penstock_runtime.models.backends.export import exported
from penstock_runtime.models.backends.samples import random_batch
from penstock_runtime.models.backends.source import Source
from penstock_runtime.models.device.device import choose_device
from penstock_runtime.models.encoders.directory import read_directory
from penstock_runtime.models.encoders.load import (
    OpenedEncoder,
    load_encoder,
    open_encoder,
    text_limits,
)
from penstock_runtime.models.encoders.model import PaddedEncoder
from penstock_runtime.models.encoders.precision import precision_error
from penstock_runtime.models.precision import is_narrow

_EXPORTED_ROWS = 3


class EncoderSource(Source):
    """Eager torch runs it packed or prepacked; other backends run the padded forward of transformers."""

    native = ModelBackend.EAGER
    digest_is_exact = True

    def __init__(self, folder: Path, task: Task, dtype: DType) -> None:
        self._folder, self._task, self.dtype = folder, task, dtype
        self.device = choose_device()

    @override
    def digest(self) -> str:
        read_directory(self._folder)
        files = [
            path for path in self._folder.rglob("*") if path.suffix in (".json", ".safetensors")
        ]
        return digest_of(sorted(files))

    @override
    def native_model(self) -> Model:
        model = load_encoder(self._folder, self._task, self.dtype)
        self.precision_error = precision_error(self._folder, self._task, self.dtype, model)
        return model

    @override
    def untouched(self) -> Model:
        return self._opened.padded()

    @override
    def program(self) -> tuple[Program, int]:
        opened = self._opened
        if opened.model.dtype is not torch.float32:
            computed = str(opened.model.dtype).removeprefix("torch.")
            raise BackendFailed(f"it computes in float32 only, and spec.model.dtype is {computed}")
        sample = random_batch(opened.info, _EXPORTED_ROWS)
        program = exported(opened.model, opened.call, opened.info, sample)
        return Program(opened.info, exported=program), 1

    @override
    def wrap(self, model: ArrayModel) -> Model:
        directory = read_directory(self._folder)
        try:
            config = transformers.AutoConfig.from_pretrained(
                self._folder, local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError) as error:
            raise ModelLoadFailed(
                f"directory '{self._folder}' has no usable config.json ({describe(error)}): copy the whole model"
            ) from error
        return PaddedEncoder(model, text_limits(directory, config, self.device))

    @cached_property
    def _opened(self) -> OpenedEncoder:
        exact = DType.FLOAT32 if is_narrow(self.dtype) else self.dtype
        return open_encoder(self._folder, self._task, exact)
