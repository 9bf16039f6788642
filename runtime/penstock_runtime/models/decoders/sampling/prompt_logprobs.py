"""Log-probabilities of prompt tokens, from the logits of the positions before them."""

from collections.abc import Iterator

import torch

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.steps.step_plan import Row, StepPlan
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Logits

_CHUNK_POSITIONS = 64
"""Positions whose log-probabilities over the vocabulary are in memory together; a prompt chunk may have hundreds."""


@torch.inference_mode()
def score(logits: Logits, plan: StepPlan) -> dict[int, PromptScores]:
    """Return the scores of each row with prompt log-probabilities; `logits` ([sum of scores, vocabulary]) are by row."""
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
    for at in range(0, row.scores, _CHUNK_POSITIONS):
        part = logits[at : at + _CHUNK_POSITIONS]
        part = (part if part.dtype == torch.float64 else part.float()).log_softmax(-1)
        following = sequence.ids[first + at : first + at + len(part)]
        logprobs = part.gather(1, torch.tensor(following, device=part.device)[:, None])
        ranks = (part > logprobs).sum(-1) + 1
        values, ids = part.topk(alternatives)
        columns = (logprobs[:, 0], ranks, ids, values)
        yield PromptScores(*(column.cpu().numpy() for column in columns))
