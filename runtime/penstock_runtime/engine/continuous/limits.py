"""The live limits of generation, and what a model's KV cache holds."""

from dataclasses import dataclass
from typing import Final

from penstock_api.limits import Discipline, LimitsUpdate, Lowering, Preemption

__all__ = ["GenerationInfo", "GenerationLimits", "KVSpec", "Lowering", "Preemption"]

TOKENS_PER_STEP: Final = 512
"""Default of `max_batched_tokens`: a prefill chunk that barely delays the decodes in its step."""


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """What the engine obeys from the next plan on, under one generation."""

    generation: int
    max_batch_size: int
    """Running sequences."""
    max_batched_tokens: int
    """Tokens a step; at least `max_batch_size`, so that every running sequence can decode."""
    max_queue_depth: int
    discipline: Discipline
    preemption: Preemption
    lowering: Lowering = Lowering.FINISH

    @classmethod
    def from_update(cls, update: LimitsUpdate) -> "GenerationLimits":
        """Return the limits of a settings update, with defaults for fields that it leaves unset."""
        tokens = update.max_batched_tokens or max(TOKENS_PER_STEP, update.max_batch_size)
        return cls(
            generation=update.generation,
            max_batch_size=update.max_batch_size,
            max_batched_tokens=tokens,
            max_queue_depth=update.max_queue_depth,
            discipline=update.discipline,
            preemption=update.preemption,
            lowering=update.drain,
        )


@dataclass(frozen=True, slots=True)
class KVSpec:
    """The paged cache as the step laid it out at load. Sizes are counts unless they say bytes."""

    block_tokens: int
    """Positions a block holds, in every layer."""
    blocks: int
    """On the device."""
    host_blocks: int
    """On the host, for swap; 0: none, so preemption recomputes."""
    block_bytes: int
    sliding_windows: tuple[int, ...] = ()
    """Windows of the sliding layer groups; full layers have none. All groups share one block table."""

    @property
    def tokens(self) -> int:
        """Return how many positions the device holds."""
        return self.blocks * self.block_tokens


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One step, and how long it took."""

    prefill_tokens: int
    decode_rows: int
    kv_tokens: int
    """Positions read from the cache, over all rows."""
    seconds: float
    """Device time."""


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """What a loaded generative model says of itself."""

    name: str
    backend: str
    """What computes: `cpu`, `cuda:NVIDIA H200`."""
    attention: str
    """The attention of the compute backend that was selected at load: `openvino`, or `gather-sdpa` on torch."""
    dtype: str
    vocabulary: int
    max_model_len: int
    """Positions that one sequence may have: the model's own bound, or what the cache holds if that is less."""
    kv: KVSpec
    stop_ids: tuple[int, ...]
    """The model's own (generation_config.json, else config.json)."""
    max_running: int
    """The most sequences that any limit may allow."""
    revision: str
    """Of the weights: part of every prefix hash."""
    prefill_token_seconds: float = 50e-6
    """Measured at load, as is the next: what decides between swapping and computing again."""
    copied_block_seconds: float = 20e-6
    """One block, one way."""
    warm_up: tuple[TimedStep, ...] = ()
    """Steps that were timed at load, before any request."""

    @property
    def cap_bound(self) -> int:
        """Return the largest cap that memory allows: each that runs has a block, at least."""
        return max(1, min(self.max_running, self.kv.blocks))
