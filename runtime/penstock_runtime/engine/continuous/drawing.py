"""From a plan's rows to what the sampler needs of their sequences: penalties' counts, seeds."""

import numpy as np

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.sampling_inputs import Draw, SamplingInputs
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.step_plan import Row, StepPlan


def sampling_inputs(plan: StepPlan, grammars: dict[int, Grammar]) -> SamplingInputs:
    """Return one draw for each sampling row; the masks of `grammars` are not in it yet."""
    draws = tuple(_draw(index, row) for index, row in enumerate(plan.rows) if row.samples)
    return SamplingInputs(draws, grammars)


def _draw(index: int, row: Row) -> Draw:
    sequence, params = row.sequence, row.sequence.params
    position = row.start + row.count
    draw = Draw(
        row=index,
        params=params,
        seed=sequence.seed,
        choice=sequence.choice,
        position=position,
        output_tokens=position - sequence.prompt_tokens,
    )
    return _with_history(draw, sequence) if params.needs_counts else draw


def _with_history(draw: Draw, sequence: Sequence) -> Draw:
    prompt = None
    if sequence.params.repetition_penalty != 1.0:
        prompt = np.unique(np.array(sequence.ids[: sequence.prompt_tokens], np.int64))
    counts = sequence.counts
    return Draw(
        row=draw.row,
        params=draw.params,
        seed=draw.seed,
        choice=draw.choice,
        position=draw.position,
        output_tokens=draw.output_tokens,
        prompt_ids=prompt,
        output_ids=np.fromiter(counts.keys(), np.int64, len(counts)),
        output_counts=np.fromiter(counts.values(), np.float64, len(counts)),
    )
