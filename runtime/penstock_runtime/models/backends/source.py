"""`Source`: a loaded model before a backend is selected; each kind of file has one."""

from typing import Protocol, runtime_checkable

import torch

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.continuous.steps.options import DType
from penstock_runtime.engine.model import Model
from penstock_runtime.models.backends.array_model import ArrayModel
from penstock_runtime.models.backends.base import Program


@runtime_checkable
class Source(Protocol):
    """A model in its own format; what is expensive is loaded by the first call that needs it."""

    native: ModelBackend
    """Backend of the format, in use unless another is requested."""
    device: torch.device
    dtype: DType = DType.AUTO
    """Requested data type; a narrower one than float32 is that of `native_model`, not of `untouched` and `program`."""
    digest_is_exact: bool
    """Whether equal digests mean equal outputs; False: what is cached is compared with the untouched model."""
    precision_error: float | None = None
    """Greatest difference of the native model in a requested narrower type from float32, relative to the greatest output, once it
    is loaded; None: not compared."""

    def digest(self) -> str:
        """Return a digest of what the outputs depend on; files are not parsed.

        Raises:
            ModelLoadFailed: a file is missing.
        """

    def native_model(self) -> Model:
        """Return the model on the native backend, in the form that is the fastest there. Raises `ModelLoadFailed`."""

    def untouched(self) -> Model:
        """Return the model as it was written, which is the reference. Raises `ModelLoadFailed`."""

    def program(self) -> tuple[Program, int]:
        """Return what other backends compile, and the number of rows that it needs at least.

        Raises:
            BackendFailed: the model cannot be exported.
            ModelLoadFailed: as `native_model`.
        """

    def wrap(self, model: ArrayModel) -> Model:
        """Return the model around a compiled program."""
