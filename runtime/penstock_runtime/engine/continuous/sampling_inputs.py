"""What the sampler needs from the host for one step: taken from the sequences when all before it is settled.

From a plan's rows to what the sampler needs of their sequences: penalties' counts, seeds.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.step_plan import Row, StepPlan


class Draw(Struct, frozen=True, gc=False):
    """How one row's token is chosen."""

    row: int
    """Index into the plan's rows."""
    params: SamplingParams
    seed: int
    choice: int
    position: int
    """Of the token that is drawn: the sequence's length before it."""
    output_tokens: int
    """Drawn before it."""
    mask: NDArray[np.uint32] | None = None
    """The grammar's: bit t is set where token t may follow."""
    prompt_ids: NDArray[np.int64] | None = None
    """With a repetition penalty: every distinct id of the prompt."""
    output_ids: NDArray[np.int64] | None = None
    """With any penalty: every distinct id of the output, and how often it occurs."""
    output_counts: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class SamplingInputs:
    """One a step."""

    draws: tuple[Draw, ...]
    """One a sampling row, in order of rows."""
    grammars: dict[int, Grammar] = field(default_factory=dict)
    """By row: whose masks are still to be filled in, when the forward is done."""


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
        seed=sequence.request.seed,
        choice=sequence.choice,
        position=position,
        output_tokens=position - sequence.request.prompt_tokens,
    )
    return draw if sequence.counts is None else _with_history(draw, sequence, sequence.counts)


def _with_history(draw: Draw, sequence: Sequence, counts: Counter[int]) -> Draw:
    prompt = None
    if sequence.params.repetition_penalty != 1.0:
        prompt = np.unique(np.array(sequence.ids[: sequence.request.prompt_tokens], np.int64))
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
