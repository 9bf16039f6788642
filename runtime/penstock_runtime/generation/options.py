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
    """What runs a model's forward."""

    OWN = "Own"
    """The C file for float32 on CPUs, else transformers' modules over the first attention that works."""
    OPENVINO = "OpenVINO"
    """OpenVINO's CPU plugin, an optional extra: in blocks of its own size."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Settings of the step and its cache."""

    compute: Compute = Compute.OWN
    dtype: DType = DType.AUTO
    block_tokens: int = 16
    """16: a prefix is shared in units small against a system prompt, a table stays short. OpenVINO has its own."""
    cache_bytes: int | None = None
    """Of the paged cache; None: a share of the memory that is free after loading."""
    host_cache_bytes: int = 0
    """Of the host's, for swap."""
    max_model_len: int | None = None
    """Positions a sequence may have; None: the model's own bound."""
    max_running: int = 256
    """The most sequences that any live limit may allow."""
    attention: str | None = None
    """A backend by name; None: the first whose probe is right."""
    surgery: bool = True
    """Whether known families run on merged and packed weights."""
    graphs: bool = True
    """Whether steps of one token a row are recorded and replayed where launches cost as much as kernels: on CUDA."""
    batch_invariant: bool = False
    """Bits of an answer do not depend on batch mates, chunks, prefix hits or preemption; on the native decoder only."""
    depth: int | None = None
    """Steps planned ahead of the one that runs: 1 hides planning behind the device, 0 is the plain loop; None: by
    cores and devices (`link.placement.step_depth`)."""
