"""Logits processors: convert logits to the sampling distribution, in the same order for every request.

1. logit bias; 2. repetition, 3. frequency, 4. presence penalty; 5. grammar mask and, below `min_tokens`, the ban of
stop ids; 6. temperature; 7. min-p; 8. top-k; 9. top-p. A stage does not modify rows without its parameter, so a
row is bitwise independent of its batch-mates.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from penstock_runtime.engine.continuous.steps.sampling_inputs import Draw

_BITS = torch.arange(32, dtype=torch.int32)


def penalize(row: torch.Tensor, draw: Draw) -> None:
    """Apply stages 1 to 5 to one row of logits ([vocabulary]) in place."""
    params = draw.params
    if params.logit_bias:
        ids, bias = zip(*params.logit_bias, strict=True)
        row[torch.tensor(ids)] += torch.tensor(bias, dtype=row.dtype, device=row.device)
    if draw.prompt_ids is not None and params.repetition_penalty != 1.0:
        present = np.zeros(len(row), bool)
        for known in (draw.prompt_ids, draw.output_ids):
            if known is not None:
                present[known] = True
        penalized = torch.where(
            row > 0, row / params.repetition_penalty, row * params.repetition_penalty
        )
        row.copy_(torch.where(torch.from_numpy(present).to(row.device), penalized, row))
    if draw.output_ids is not None and draw.output_counts is not None and len(draw.output_ids):
        at = torch.from_numpy(draw.output_ids).to(row.device)
        counts = torch.from_numpy(draw.output_counts).to(row)
        row[at] -= params.frequency_penalty * counts + params.presence_penalty
    if draw.mask is not None:
        row.masked_fill_(~_allowed(draw.mask, len(row)).to(row.device), -math.inf)
    if draw.output_tokens < params.min_tokens and params.stop_ids:
        row[torch.tensor(sorted(params.stop_ids), device=row.device)] = -math.inf


def _allowed(mask: np.ndarray, vocabulary: int) -> torch.Tensor:
    words = torch.from_numpy(mask.view(np.int32))
    return ((words[:, None] >> _BITS) & 1).bool().view(-1)[:vocabulary]


def touches_logits(draw: Draw) -> bool:
    """Return whether `penalize` changes any logit."""
    return bool(
        draw.params.logit_bias
        or draw.params.needs_counts
        or draw.mask is not None
        or (draw.params.stop_ids and draw.output_tokens < draw.params.min_tokens)
    )


def distribution(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """Return [rows, vocabulary] unnormalized weights after stages 6 to 9; `logits` are not modified.

    Top-k keeps all ids tied with the last one it keeps; of ids tied with the last one of top-p, the lowest are kept. The
    largest logit of each row is finite and is subtracted before the division by the temperature, so that weights are
    finite even for temperatures near 0.
    """
    temperatures = torch.tensor([draw.params.temperature for draw in draws], dtype=logits.dtype)
    below = logits - logits.amax(-1, keepdim=True)
    temperatures = temperatures.clamp_min(torch.finfo(logits.dtype).tiny).to(logits.device)
    weights = (below / temperatures[:, None]).softmax(-1)
    for row, draw in enumerate(draws):
        params, kept = draw.params, weights[row]
        if params.min_p > 0.0:
            kept.masked_fill_(kept < params.min_p * kept.max(), 0.0)
        if 0 < params.top_k < len(kept):
            kept.masked_fill_(kept < kept.topk(params.top_k).values[-1], 0.0)
        if params.top_p < 1.0:
            keep_nucleus(kept, params.top_p)
    return weights


_LIKELY = 128
"""Number of ids that nearly always contain the nucleus; sorting a whole vocabulary costs twenty times more."""


def keep_nucleus(weights: torch.Tensor, top_p: float) -> None:
    """Zero, in place, all but the fewest weights (at least one) that have `top_p` of the sum; lower ids win ties."""
    share = top_p * weights.sum(dtype=torch.float64)
    for count in (min(_LIKELY, len(weights)), len(weights)):
        largest = weights.topk(count).values
        before = largest.to(torch.float64).cumsum(0) - largest
        needed = max(1, int((before < share).sum()))
        if needed < count:
            break
    smallest = largest[needed - 1]
    ties = torch.nonzero(weights == smallest).flatten()
    spare = int((largest[:needed] == smallest).sum())
    weights.masked_fill_(weights < smallest, 0.0)
    weights[ties[spare:]] = 0.0
