"""Limits of generation: live limits, the capacity of a loaded model and its KV cache, and the length of a sequence."""

from dataclasses import dataclass, field
from typing import Final

from penstock_api.pod_contract import (
    Discipline,
    LimitsUpdate,
    Lowering,
    ModelBackendState,
    Preemption,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingDefaults
from penstock_runtime.errors import BadInput, ContextExceeded

__all__ = [
    "GenerationInfo",
    "GenerationLimits",
    "KVSpec",
    "Lowering",
    "Preemption",
    "TimedStep",
    "grant_tokens",
    "max_sequence_tokens",
]

TOKENS_PER_STEP: Final = 512
"""Default of `max_batched_tokens`: a prefill chunk that barely delays the decodes in its step."""


@dataclass(frozen=True, slots=True)
class GenerationLimits:
    """The limits of one generation, applied from the next plan on."""

    generation: int
    max_batch_size: int
    """Running sequences."""
    max_batched_tokens: int
    """Tokens per step; at least `max_batch_size`, so that every running sequence can decode."""
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
    """The paged KV cache as laid out at load; sizes are counts unless the name says bytes."""

    block_tokens: int
    """Positions per block, in every layer."""
    blocks: int
    """Device blocks."""
    host_blocks: int
    """Host blocks for swapping; 0: preemption recomputes."""
    block_bytes: int
    sliding_windows: tuple[int, ...] = ()
    """Windows of the sliding layer groups; full layers have none. All groups share one block table."""

    @property
    def tokens(self) -> int:
        """Return the positions that fit on the device."""
        return self.blocks * self.block_tokens

    def blocks_for(self, tokens: int) -> int:
        """Return how many blocks `tokens` positions take."""
        return -(-tokens // self.block_tokens)


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One step and its duration."""

    prefill_tokens: int
    decode_rows: int
    kv_tokens: int
    """Positions read from the cache, over all rows."""
    seconds: float
    """Device time."""


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """The description of a loaded generative model."""

    name: str
    backend: str
    """Compute device: `cpu`, `cuda:NVIDIA H200`."""
    attention: str
    """Attention of the compute backend that was selected at load: `openvino`, or `gather-sdpa` on torch."""
    dtype: str
    vocabulary: int
    max_model_len: int
    """Positions per sequence: the model's own bound, or the cache's capacity if that is less."""
    kv: KVSpec
    stop_ids: tuple[int, ...]
    """The model's own stop ids, from generation_config.json, else config.json."""
    max_running: int
    """Upper bound of the cap under any limits."""
    revision: str
    """Revision of the weights; part of every prefix hash."""
    prefill_token_seconds: float = 50e-6
    """Measured at load; with `copied_block_seconds` it decides between swapping and recomputation."""
    copied_block_seconds: float = 20e-6
    """One block, one way, in seconds."""
    warm_up: tuple[TimedStep, ...] = ()
    """Steps timed at load, before any request."""
    model_backend: ModelBackendState | None = None
    """Backend with the error of a requested 16-bit type; None: not compared."""
    sampling: SamplingDefaults = field(default_factory=SamplingDefaults)
    """Those of generation_config.json."""

    @property
    def cap_bound(self) -> int:
        """Return the largest cap that memory allows: every running sequence needs at least one block."""
        return max(1, min(self.max_running, self.kv.blocks))


def max_sequence_tokens(info: GenerationInfo) -> int:
    """Return how many tokens, prompt and answer, one sequence can have in an otherwise empty cache."""
    return min(info.max_model_len, info.kv.tokens)


def grant_tokens(info: GenerationInfo, prompt_tokens: int, max_tokens: int | None) -> int:
    """Return how many tokens may be generated after the prompt; with `max_tokens` None, all that fit.

    Raises:
        BadInput: no token fits after the prompt, or `max_tokens` is more than fits.
    """
    bound = max_sequence_tokens(info)
    room = bound - prompt_tokens
    if prompt_tokens < 1:
        raise BadInput("the prompt must have at least 1 token, got 0", field="prompt")
    if room < 1:
        raise ContextExceeded(
            f"the prompt is too long: it has {prompt_tokens} tokens, and this model's maximum context length is"
            f" {bound} tokens, prompt and answer together: shorten it to at most {bound - 1}",
            field="prompt",
        )
    if max_tokens is not None and max_tokens > room:
        raise ContextExceeded(
            f"this model's maximum context length is {bound} tokens: max_tokens must be at most {room} after"
            f" a prompt of {prompt_tokens} tokens, got {max_tokens}",
            field="max_tokens",
        )
    return room if max_tokens is None else max_tokens
