"""Measures prefill and decode times of backends and data types on one layer of a model's shapes.

The layer has constant weights and a small vocabulary, so nothing is read from disk. Candidates alternate, so that other
load on the machine affects all of them.
"""

import copy
import logging
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

from penstock_runtime.engine.continuous.limits import KVSpec
from penstock_runtime.engine.continuous.steps.options import Compute, StepOptions
from penstock_runtime.engine.model import describe
from penstock_runtime.models.decoders.backends.registry import backend_for
from penstock_runtime.models.decoders.packing import PackedBatch
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder
from penstock_runtime.models.decoders.warm_up import run, uniform_step

PROMPT_TOKENS = 32
DECODE_ROWS = 4
OUTPUT_TOKENS = 64
"""Output tokens of the request by which candidates are compared; its prompt is twice as long, and DECODE_ROWS requests
share each step."""
MAX_SECONDS = 1.0
"""Time after which no further round starts."""
MAX_ROUNDS = 4
"""Limit of rounds; the first is a warm-up, which counts only if it is the only one."""
_VOCABULARY = 1024
_WEIGHT = 1 / 64

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StepCandidate:
    """A backend with the data type of weights, keys and values."""

    compute: Compute
    """OPENVINO or TORCH."""
    dtype: torch.dtype

    def __str__(self) -> str:
        return f"{self.compute} in {str(self.dtype).removeprefix('torch.')}"


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Median times of one layer in seconds."""

    prompt: float
    """Time to prefill PROMPT_TOKENS."""
    decode: float
    """Time of a decode step of DECODE_ROWS."""

    @property
    def request(self) -> float:
        """Return the time of a request with 2 * OUTPUT_TOKENS prompt tokens and OUTPUT_TOKENS output tokens."""
        prompt = 2 * OUTPUT_TOKENS / PROMPT_TOKENS * self.prompt
        return prompt + OUTPUT_TOKENS / DECODE_ROWS * self.decode

    def __str__(self) -> str:
        return (
            f"{self.prompt * 1e3:.3g} ms per layer to prefill {PROMPT_TOKENS} tokens,"
            f" {self.decode * 1e3:.3g} ms to decode {DECODE_ROWS} rows"
        )


@dataclass(frozen=True, slots=True)
class _Probe:
    decoder: Decoder
    prompt: PackedBatch
    decode: PackedBatch
    prompt_seconds: list[float] = field(default_factory=list)
    decode_seconds: list[float] = field(default_factory=list)

    def times(self) -> StepTimes:
        return StepTimes(_median(self.prompt_seconds), _median(self.decode_seconds))


def measure_steps(
    config: PreTrainedConfig,
    options: StepOptions,
    candidates: Sequence[StepCandidate],
    clock: Callable[[], float] = time.perf_counter,
) -> Mapping[StepCandidate, StepTimes]:
    """Return the times of the `candidates` that run on this machine."""
    probes: dict[StepCandidate, _Probe] = {}
    for candidate in candidates:
        try:
            probes[candidate] = _probe(config, options, candidate)
        except Exception as error:  # noqa: BLE001  libraries raise various errors for an unsupported type
            _log.info("%s was not measured: %s", candidate, describe(error))
    began = clock()
    for done in range(MAX_ROUNDS):
        if done and clock() - began > MAX_SECONDS:
            break
        for probe in probes.values():
            probe.prompt_seconds.append(_timed(probe.decoder, probe.prompt, clock))
            probe.decode_seconds.append(_timed(probe.decoder, probe.decode, clock))
    return {candidate: probe.times() for candidate, probe in probes.items()}


def _probe(config: PreTrainedConfig, options: StepOptions, candidate: StepCandidate) -> _Probe:
    model = _one_layer(config, candidate.dtype)
    backend = backend_for(candidate.compute, model, options, torch.device("cpu"))
    longest = PROMPT_TOKENS + 1
    each = -(-longest // backend.block_tokens)
    kv = KVSpec(backend.block_tokens, DECODE_ROWS * each, 0, 0)
    cache = backend.allocate(kv.blocks + backend.spare_blocks)
    decoder = next(backend.decoders(model, [cache], longest))
    prompt, decode = (
        uniform_step(1, PROMPT_TOKENS, 0, kv),
        uniform_step(DECODE_ROWS, 1, PROMPT_TOKENS, kv),
    )
    probe = _Probe(decoder, prompt, decode)
    run(decoder, decode)
    return probe


def _one_layer(config: PreTrainedConfig, dtype: torch.dtype) -> PreTrainedModel:
    """Return a model of the first layer's shapes with constant weights."""
    text = copy.deepcopy(config.get_text_config())
    text.num_hidden_layers = 1
    text.vocab_size = min(text.vocab_size, _VOCABULARY)
    text.pad_token_id = None  # it may exceed the vocabulary
    if getattr(text, "layer_types", None):
        text.layer_types = text.layer_types[:1]
    auto: Any = AutoModelForCausalLM
    with no_init_weights():
        model: PreTrainedModel = auto.from_config(
            text, dtype=dtype, attn_implementation="eager"
        ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(_WEIGHT)
    return model


def _timed(decoder: Decoder, packed: PackedBatch, clock: Callable[[], float]) -> float:
    start = clock()
    run(decoder, packed)
    return clock() - start


def _median(seconds: list[float]) -> float:
    return statistics.median(seconds[1:] or seconds)
