"""Verification of a decoder against the original transformers model at every load.

Two sequences run in uneven chunks, together, over scattered blocks; the logits after each chunk must match those of the
original model for the whole prefix.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder

_CHUNKS = ((6, 1, 1), (3, 4, 1))
"""Positions by sequence and step: two prompts, a decode with a chunk, two decodes."""
_BLOCKS = 2
_TOLERANCE = {torch.float64: 1e-5, torch.float32: 2e-3}
"""Tolerated difference relative to the largest logit. float64 models compute norms and rotary embeddings in
float32, whose rounding depends on the order of summation: hence not 1e-12."""
_COARSE = 1e-1
_MIN_SCALE = 1e-30


def tolerance(dtype: torch.dtype) -> float:
    """Return the tolerated difference in `dtype` relative to the largest logit."""
    return _TOLERANCE.get(dtype, _COARSE)


def difference(got: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest difference relative to the largest logit, where `expected` is finite."""
    numbers = expected.isfinite()
    if not numbers.any():
        return 0.0
    wide = torch.float64 if expected.dtype == torch.float64 else torch.float32
    reference, actual = expected[numbers].to(wide), got[numbers].to(wide)
    error = (actual - reference).abs().max().item() / max(reference.abs().max().item(), _MIN_SCALE)
    return error if math.isfinite(error) else math.inf


@dataclass(frozen=True, slots=True)
class Expected:
    """Logits of the original model."""

    ids: np.ndarray
    """[sequences, positions]: token ids."""
    logits: torch.Tensor
    """[sequences, positions, vocabulary]."""


def reference(model: PreTrainedModel) -> Expected:
    """Return the logits of `model` for random ids of the whole vocabulary."""
    length = sum(_CHUNKS[0])
    vocabulary = model.config.get_text_config().vocab_size
    ids = np.random.default_rng(0).integers(0, vocabulary, (len(_CHUNKS), length))
    call: Any = model
    with torch.inference_mode():
        logits = call(input_ids=torch.from_numpy(ids).to(model.device), use_cache=False).logits
    return Expected(ids, logits)


def check(decoder: Decoder, expected: Expected, block_tokens: int, dtype: torch.dtype) -> None:
    """Run `decoder` on `expected.ids`, over blocks 0 and 1 (of at least 8 positions).

    Raises:
        ModelLoadFailed: the logits differ by more than rounding.
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
        reference_logits = torch.stack(
            [expected.logits[row, at - 1] for row, at in enumerate(done)]
        )
        error = (got.double() - reference_logits.double()).abs().max().item() / scale
        if not error <= tolerance(dtype):
            raise ModelLoadFailed(
                f"the paged model differs from transformers' own by {error:.2g} of the largest logit:"
                " this model type is not supported correctly, please report it"
            )
