"""How a generative model is loaded: fixed for the life of the process."""

from dataclasses import dataclass
from enum import StrEnum


class DType(StrEnum):
    """What weights, keys and values are computed in."""

    AUTO = "auto"
    """As the checkpoint says; 16-bit ones on a CPU in float32 where that is measured to be faster and fits."""
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"


class Compute(StrEnum):
    """The compute backend: what runs a model's forward."""

    AUTO = "Auto"
    """On a CPU the backend that is measured to be faster for the model, elsewhere torch."""
    OPENVINO = "OpenVINO"
    """OpenVINO's CPU plugin: float32 and bfloat16, for the families that can be taken apart."""
    TORCH = "Torch"
    """transformers' modules over paged attention, for every model, type and device."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Settings of the step and its cache."""

    compute: Compute = Compute.AUTO
    dtype: DType = DType.AUTO
    block_tokens: int = 16
    """16: a prefix is shared in units small against a system prompt, a table stays short. OpenVINO has its own size."""
    cache_bytes: int | None = None
    """Of the paged cache; None: a share of the memory that is free after loading."""
    host_cache_bytes: int = 0
    """Of the host's, for swap."""
    max_model_len: int | None = None
    """Positions a sequence may have; None: the model's own bound."""
    max_running: int = 256
    """The most sequences that any live limit may allow."""
    graphs: bool = True
    """Whether steps of one token a row are recorded and replayed where launches cost as much as kernels: on CUDA."""
    batch_invariant: bool = False
    """Bits of an answer do not depend on batch mates, chunks, prefix hits or preemption: each token has a forward of
    its own. On CPUs only."""
    depth: int | None = None
    """Steps planned ahead of the one that runs: 1 hides planning behind the device, 0 is the plain loop; None: by
    cores and devices (`engine.placement.step_depth`)."""
