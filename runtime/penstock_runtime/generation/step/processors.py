"""Logits to the distribution that is drawn from, in an order that is the same for every request.

1. logit bias; 2. repetition, 3. frequency, 4. presence penalty; 5. grammar mask and, below `min_tokens`, the
ban of stop ids; 6. temperature; 7. top-k; 8. top-p; 9. min-p. A row that asks for none of a stage is not
touched by it, so what a row's batch mates ask for never shows in its own bits.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from penstock_runtime.generation.inputs import Draw

_BITS = torch.arange(32, dtype=torch.int32)


def penalize(row: torch.Tensor, draw: Draw) -> None:
    """Apply stages 1 to 5 to one row of logits ([vocabulary]) in place."""
    params = draw.params
    if params.logit_bias:
        ids, bias = zip(*params.logit_bias, strict=True)
        row[torch.tensor(ids)] += torch.tensor(bias, dtype=row.dtype, device=row.device)
    if draw.prompt_ids is not None and params.repetition_penalty != 1.0:
        seen = [ids for ids in (draw.prompt_ids, draw.output_ids) if ids is not None]
        ids = torch.from_numpy(np.unique(np.concatenate(seen))).to(row.device)
        held, penalty = row[ids], params.repetition_penalty
        row[ids] = torch.where(held > 0, held / penalty, held * penalty)
    if draw.output_ids is not None and draw.output_counts is not None and len(draw.output_ids):
        ids = torch.from_numpy(draw.output_ids).to(row.device)
        counts = torch.from_numpy(draw.output_counts).to(row)
        row[ids] -= params.frequency_penalty * counts + params.presence_penalty
    if draw.mask is not None:
        row.masked_fill_(~_allowed(draw.mask, len(row)).to(row.device), -math.inf)
    if draw.output_tokens < params.min_tokens and params.stop_ids:
        row[torch.tensor(sorted(params.stop_ids), device=row.device)] = -math.inf


def _allowed(mask: np.ndarray, vocabulary: int) -> torch.Tensor:
    words = torch.from_numpy(mask.view(np.int32))
    return ((words[:, None] >> _BITS) & 1).bool().view(-1)[:vocabulary]


def touches_logits(draw: Draw) -> bool:
    """Return whether `penalize` would do anything."""
    return bool(
        draw.params.logit_bias
        or draw.params.needs_counts
        or draw.mask is not None
        or (draw.params.stop_ids and draw.output_tokens < draw.params.min_tokens)
    )


def distribution(logits: torch.Tensor, draws: Sequence[Draw]) -> torch.Tensor:
    """Return [rows, vocabulary] weights, not normalised, after stages 6 to 9; `logits` are left as they are.

    Ties at the edge of top-k and top-p are all kept by top-k, and go to the lower id first by top-p.
    """
    heat = torch.tensor([draw.params.temperature for draw in draws], dtype=logits.dtype)
    scaled = logits / heat[:, None].to(logits.device)
    for row, draw in enumerate(draws):
        if 0 < draw.params.top_k < scaled.shape[1]:
            least = scaled[row].topk(draw.params.top_k).values[-1]
            scaled[row].masked_fill_(scaled[row] < least, -math.inf)
    weights = scaled.softmax(-1)
    for row, draw in enumerate(draws):
        if draw.params.top_p < 1.0:
            _keep_nucleus(weights[row], draw.params.top_p)
        if draw.params.min_p > 0.0:
            kept = weights[row]
            kept.masked_fill_(kept < draw.params.min_p * kept.max(), 0.0)
    return weights


def _keep_nucleus(weights: torch.Tensor, top_p: float) -> None:
    ordered, ids = weights.sort(descending=True, stable=True)
    before = ordered.to(torch.float64).cumsum(0) - ordered
    weights[ids[before >= top_p]] = 0.0
