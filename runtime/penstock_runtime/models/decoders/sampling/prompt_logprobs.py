"""Log-probabilities of prompts: what the logits of one position say of the token that follows it."""

from collections.abc import Iterator

import torch

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.step_plan import Row, StepPlan
from penstock_runtime.models.decoders.transformers_decoder import Logits

_AT_ONCE = 64
"""Positions whose log-probabilities over the whole vocabulary are held together: a chunk may have hundreds."""


@torch.inference_mode()
def score(logits: Logits, plan: StepPlan) -> dict[int, PromptScores]:
    """Return the scores of each row that wants some; `logits` ([sum of rows' scores, vocabulary]) are in their order."""
    logits, scored, at = torch.as_tensor(logits), {}, 0
    for index, row in enumerate(plan.rows):
        if row.scores:
            parts = list(_of_row(logits[at : at + row.scores], row))
            scored[index] = PromptScores.joined(parts)
            at += row.scores
    return scored


def _of_row(logits: torch.Tensor, row: Row) -> Iterator[PromptScores]:
    sequence, first = row.sequence, row.start + 1
    alternatives = min(sequence.params.prompt_logprobs or 0, logits.shape[1])
    for at in range(0, row.scores, _AT_ONCE):
        part = logits[at : at + _AT_ONCE]
        part = (part if part.dtype == torch.float64 else part.float()).log_softmax(-1)
        following = sequence.ids[first + at : first + at + len(part)]
        told = part.gather(1, torch.tensor(following, device=part.device)[:, None])
        ranks = (part > told).sum(-1) + 1
        values, ids = part.topk(alternatives)
        columns = (told[:, 0], ranks, ids, values)
        yield PromptScores(*(column.cpu().numpy() for column in columns))
