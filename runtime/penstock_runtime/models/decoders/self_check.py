"""The decoder that will serve against the model as transformers runs it, at every load.

Two sequences are fed in uneven chunks, together, over scattered blocks; the logits after each chunk must
be those that the untouched model gives for the whole prefix.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.transformers_decoder import Decoder

_CHUNKS = ((6, 1, 1), (3, 4, 1))
"""Positions fed by sequence and step: a prompt with a prompt, a decode with a chunk, two decodes."""
_BLOCKS = 2
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 2e-3}
"""Of the largest logit. float64 models compute norms and rotations in float32, which other groupings of the
same sums may round differently: hence not 1e-12."""
_COARSE = 1e-1
_MIN_SCALE = 1e-30


def tolerance(dtype: torch.dtype) -> float:
    """Return by how much of the largest logit an answer in `dtype` may differ."""
    return _TOLERANCE.get(dtype, _COARSE)


def difference(got: torch.Tensor, wanted: torch.Tensor) -> float:
    """Return by how much of the largest logit `got` differs, where `wanted` has numbers."""
    numbers = wanted.isfinite()
    if not numbers.any():
        return 0.0
    wide = torch.float64 if wanted.dtype == torch.float64 else torch.float32
    asked, told = wanted[numbers].to(wide), got[numbers].to(wide)
    wrong = (told - asked).abs().max().item() / max(asked.abs().max().item(), _MIN_SCALE)
    return wrong if math.isfinite(wrong) else math.inf


@dataclass(frozen=True, slots=True)
class Expected:
    """What the untouched model says."""

    ids: np.ndarray
    """[sequences, positions]."""
    logits: torch.Tensor
    """[sequences, positions, vocabulary]."""


def reference(model: PreTrainedModel) -> Expected:
    """Return the logits of `model` for ids that touch the whole vocabulary's range."""
    length = sum(_CHUNKS[0])
    vocabulary = model.config.get_text_config().vocab_size
    ids = np.random.default_rng(0).integers(0, vocabulary, (len(_CHUNKS), length))
    call: Any = model
    with torch.inference_mode():
        logits = call(input_ids=torch.from_numpy(ids).to(model.device), use_cache=False).logits
    return Expected(ids, logits)


def check(decoder: Decoder, expected: Expected, block_tokens: int, dtype: torch.dtype) -> None:
    """Feed `expected.ids` to `decoder`; uses blocks 0 and 1 (block_tokens must hold 8 positions).

    Raises:
        ModelLoadFailed: the answers differ by more than rounding.
    """
    scale = expected.logits.abs().max().item()
    tables = np.array([[1], [0]], np.int32)
    done = np.zeros(len(_CHUNKS), np.int64)
    for counts in zip(*_CHUNKS, strict=True):
        starts = np.concatenate([[0], np.cumsum(counts)])
        fed = [
            expected.ids[row, at : at + n]
            for row, (at, n) in enumerate(zip(done, counts, strict=True))
        ]
        packed = positions_of(np.concatenate(fed), tables, done.copy(), starts, block_tokens)
        got = torch.as_tensor(decoder.forward(packed))
        done += counts
        wanted = torch.stack([expected.logits[row, at - 1] for row, at in enumerate(done)])
        wrong = (got.double() - wanted.double()).abs().max().item() / scale
        if not wrong <= tolerance(dtype):
            raise ModelLoadFailed(
                f"the paged model differs from transformers' own by {wrong:.2g} of the largest logit:"
                " this model type is not served correctly, report it"
            )
