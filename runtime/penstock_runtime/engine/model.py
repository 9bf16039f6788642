"""`Model`: the interface that a loaded model implements for the engine; the packages in `models/` implement it."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from penstock_api.pod_contract import ModelBackendState
from penstock_api.types.model import Task
from penstock_runtime.engine.padding import bucket_of
from penstock_runtime.request import Group, Tensor


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output: name, Open Inference datatype (`FP32`), shape with -1 first (rows).

    Further -1 are free dimensions: requests group by their actual value.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    bounds: tuple[tuple[int, int], ...] = ()
    """Minimum and maximum of each dimension, as the program declares them; empty: undeclared."""
    ragged: bool = False
    """Whether rows of one batch may differ along axis 1 (texts): shorter rows are padded with zeros. Within a request
    all such inputs have the same length."""
    values: range | None = None
    """Valid elements (token ids); None: all."""
    marks: bool = False
    """Whether it masks the elements of each row (an attention mask), so that no row may be all zeros."""

    def outside(self, shape: tuple[int, ...]) -> str | None:
        """Return a description of the first size out of `bounds`, or None; the cap limits the rows, which are not checked."""
        for axis, (size, (least, most)) in enumerate(zip(shape, self.bounds, strict=False)):
            if axis > 0 and not least <= size <= most:
                return f"dimension {axis} must be from {least} to {most}, got {size}"
        return None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """The description of a loaded model."""

    name: str
    platform: str
    """Platform in Open Inference metadata: `pytorch_torch_export`, `pytorch_module`, `penstock_emulated_accelerator`."""
    backend: str
    """Compute device: `cpu`, `cuda:NVIDIA H200`, `emulated-accelerator`."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_rows: int
    """Rows of the largest batch that the program accepts (a `.pt2` declares it in its dynamic shape)."""
    task: Task = Task.TENSOR
    length_buckets: tuple[int, ...] = ()
    """Upper bounds of the lengths of ragged inputs that share a batch; empty: all lengths do, because none is padded."""
    labels: tuple[str, ...] = ()
    """Labels of a classifier, by index of its output."""
    model_backend: ModelBackendState | None = None
    """Backend that runs the model, and the measured alternatives; None: a model of its own code."""

    @property
    def has_free_dimensions(self) -> bool:
        """Whether row sizes differ between requests, so that the number of rows predicts neither time nor memory."""
        return any(-1 in spec.shape[1:] for spec in self.inputs)


def group_of(info: ModelInfo, inputs: dict[str, Tensor]) -> Group:
    """Return the key of the requests that can share a batch with `inputs`: names, dtypes and shapes past the rows.

    A ragged axis counts by the bucket of its length.
    """
    return tuple(
        (spec.name, spec.datatype, _shared_shape(spec, inputs[spec.name].shape, info))
        for spec in info.inputs
    )


def _shared_shape(spec: TensorSpec, shape: tuple[int, ...], info: ModelInfo) -> tuple[int, ...]:
    if not spec.ragged:
        return shape[1:]
    bucket = bucket_of(shape[1], info.length_buckets) if info.length_buckets else 0
    return (bucket, *shape[2:])


class OutOfMemory(Exception):
    """The batch does not fit the device; the engine splits it, retries, and lowers its bound if all parts succeed."""


class DeviceLost(Exception):
    """The device can run nothing more in this process: the engine dies, and its container restarts."""


class ModelLoadFailed(Exception):
    """The model cannot be served; the message is one line naming the file or factory and the remedy."""

    reason: ClassVar[str] = "ModelLoadFailed"
    """Reason of the pool's condition."""


def describe(error: BaseException, limit: int = 400) -> str:
    """Return `Type: first line of its message`, at most `limit` characters, for clients and status fields."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


class Model(Protocol):
    """A loaded model: a pure function from a batch of rows to a batch of rows."""

    info: ModelInfo

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs for `inputs`, row by row; `inputs` are not modified.

        Raises:
            OutOfMemory: the batch did not fit; a smaller one may.
            DeviceLost: nothing can run any more.
            Exception: any other error of the model.
        """

    def memory_bound_rows(self) -> int:
        """Return floor(0.8 * free / bytes per row) as measured on the device, at least 1."""
