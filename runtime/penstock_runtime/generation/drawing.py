"""From a plan's rows to what the sampler needs of their sequences: penalties' counts, masks, seeds."""

import numpy as np

from penstock_runtime.generation.inputs import Draw, SamplingInputs
from penstock_runtime.generation.plan import Row, StepPlan
from penstock_runtime.generation.sequence import Sequence
from penstock_runtime.models.base import describe


def sampling_inputs(plan: StepPlan) -> SamplingInputs:
    """Return one draw for each sampling row. A grammar that raises fails its row alone."""
    failed: dict[int, str] = {}
    draws = tuple(_draw(index, row, failed) for index, row in enumerate(plan.rows) if row.samples)
    return SamplingInputs(draws, failed)


def _draw(index: int, row: Row, failed: dict[int, str]) -> Draw:
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
    if not params.needs_counts and sequence.grammar is None:
        return draw
    return _with_history(draw, sequence, failed)


def _with_history(draw: Draw, sequence: Sequence, failed: dict[int, str]) -> Draw:
    mask = prompt = None
    if sequence.grammar is not None:
        try:
            mask = sequence.grammar.mask()
        except Exception as error:  # noqa: BLE001  a grammar's library may raise anything; the engine lives
            failed[draw.row] = f"the grammar failed: {describe(error)}"
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
        mask=mask,
        prompt_ids=prompt,
        output_ids=np.fromiter(counts.keys(), np.int64, len(counts)),
        output_counts=np.fromiter(counts.values(), np.float64, len(counts)),
    )
