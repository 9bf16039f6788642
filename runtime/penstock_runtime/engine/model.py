"""`Model`, the contract between the engine and a loaded model; only `models/` imports torch."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

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
    """Least and most of every dimension, as the program has them; empty: it does not say."""
    ragged: bool = False
    """Whether rows of one batch may differ along axis 1 (texts): shorter ones get zeros behind them. Within a request
    all such inputs are equally long."""
    values: range | None = None
    """What an element may be (token ids); None: anything."""
    marks: bool = False
    """Whether it marks what counts of each row, so that no row may be all zeros (an attention mask)."""

    def outside(self, shape: tuple[int, ...]) -> str | None:
        """Return which size past the rows is out of `bounds`, in words, or None; rows are the cap's affair."""
        for axis, (size, (least, most)) in enumerate(zip(shape, self.bounds, strict=False)):
            if axis > 0 and not least <= size <= most:
                return f"dimension {axis} must be from {least} to {most}, got {size}"
        return None


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a loaded model says of itself."""

    name: str
    platform: str
    """As in Open Inference metadata: `pytorch_torch_export`, `pytorch_module`, `penstock_emulated_accelerator`."""
    backend: str
    """What computes: `cpu`, `cuda:NVIDIA H200`, `emulated-accelerator`."""
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    max_rows: int
    """The largest batch the program itself accepts (a `.pt2` has one in its dynamic shape)."""
    task: Task = Task.TENSOR
    length_buckets: tuple[int, ...] = ()
    """Of ragged inputs: lengths up to the same bound share a batch; empty: all lengths do, for none is padded."""
    labels: tuple[str, ...] = ()
    """Of a classifier, by index of its output."""

    @property
    def has_free_dimensions(self) -> bool:
        """Whether rows of one request may be larger than another's, so that rows alone predict neither time nor memory."""
        return any(-1 in spec.shape[1:] for spec in self.inputs)


def group_of(info: ModelInfo, inputs: dict[str, Tensor]) -> Group:
    """Return what must agree for `inputs` to share a batch: names, dtypes and shapes past the rows.

    Along a ragged axis the bucket of the length stands for the length.
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
    """The device could not hold the batch; the engine splits it, retries, and lowers its bound if all of it then ran."""


class DeviceLost(Exception):
    """The device will run nothing more in this process: the engine dies, and its pod starts again."""


class ModelLoadFailed(Exception):
    """The model cannot be served; the message is one line naming the file or factory and the remedy."""

    reason: ClassVar[str] = "ModelLoadFailed"
    """Of the pool's condition."""


def describe(error: BaseException, limit: int = 400) -> str:
    """Return `Type: first line of its message`, at most `limit` characters: fit for a client or a status."""
    lines = str(error).strip().splitlines()
    text = f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__
    return text if len(text) <= limit else text[: limit - 3] + "..."


class Model(Protocol):
    """A loaded model: a pure function from a batch of rows to a batch of rows."""

    info: ModelInfo

    def run(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the outputs for `inputs`, row for row, leaving `inputs` as they are.

        Raises:
            OutOfMemory: the batch did not fit; a smaller one may.
            DeviceLost: nothing will run any more.
            Exception: any error of the model's own.
        """

    def memory_bound_rows(self) -> int:
        """Return floor(0.8 * free / bytes per row) as measured on the device, at least 1."""
