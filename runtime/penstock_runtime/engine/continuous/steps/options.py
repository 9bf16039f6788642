"""`StepOptions`: load options of a generative model, fixed for the lifetime of the process."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class DType(StrEnum):
    """Data type of weights, keys and values."""

    AUTO = "auto"
    """The checkpoint's type; 16-bit checkpoints on a CPU in float32 where that is measured to be faster and fits."""
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    INT8 = "int8"
    """Linear layers of one-shot models on a CPU."""


class Compute(StrEnum):
    """The compute backend, which runs a model's forward pass."""

    AUTO = "Auto"
    """On a CPU the backend that is measured to be faster for the model, elsewhere torch."""
    OPENVINO = "OpenVINO"
    """OpenVINO's CPU plugin: float32 and bfloat16, for the architectures whose parts can be extracted."""
    TORCH = "Torch"
    """transformers' modules over paged attention, for every model, type and device."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Settings of the step executor and its cache."""

    compute: Compute = Compute.AUTO
    dtype: DType = DType.AUTO
    block_tokens: int = 16
    """Positions per block. With 16, prefixes are shared in small units and block tables stay short. OpenVINO sets its own."""
    cache_bytes: int | None = None
    """Size of the paged cache; None: a share of the memory that is free after loading."""
    cache_percent: int | None = None
    """That share; None: by device."""
    host_cache_bytes: int = 0
    """Size of the host cache for swapping."""
    max_model_len: int | None = None
    """Positions per sequence; None: the model's own bound."""
    max_running: int = 256
    """Upper bound of the cap, whatever the live limits are."""
    graphs: bool = True
    """Capture decode steps as CUDA graphs and replay them, on devices where launches take as long as kernels."""
    tensor_parallel: int = 1
    """Ranks that each layer is split over, each in a process of its own; sizes of memory are those of all ranks."""
    pipeline_parallel: int = 1
    """Stages that the layers are divided into, each of `tensor_parallel` ranks."""
    batch_invariant: bool = False
    """Make outputs bitwise independent of batch-mates, prompt chunks, prefix hits and preemption, by one forward pass
    per token; CPUs only."""
    depth: int | None = None
    """Steps planned ahead of the running one: 1 overlaps planning with the device, 0 does not; None: by cores and
    devices (`engine.placement.step_depth`)."""
    folders: tuple[Path, ...] = ()
    """Where the error of a requested 16-bit type is stored: the first that can be written."""

    @property
    def ranks(self) -> int:
        """Return the number of processes that the model is split over."""
        return self.tensor_parallel * self.pipeline_parallel
