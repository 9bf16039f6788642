"""`SamplingInputs`: the host inputs of the sampler for one step: parameters, seeds, penalty counts and grammar masks of each sampling row.

They are built from the sequences once all earlier plans have settled.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.steps.step_plan import Row, StepPlan


class Draw(Struct, frozen=True, gc=False):
    """The inputs that determine one row's token."""

    row: int
    """Index into the plan's rows."""
    params: SamplingParams
    seed: int
    choice: int
    position: int
    """Position of the drawn token: the sequence's length before it."""
    output_tokens: int
    """Output tokens before it."""
    mask: NDArray[np.uint32] | None = None
    """Grammar mask: bit t is set where token t may follow."""
    prompt_ids: NDArray[np.int64] | None = None
    """Distinct ids of the prompt, with a repetition penalty."""
    output_ids: NDArray[np.int64] | None = None
    """Distinct ids of the output, with any penalty."""
    output_counts: NDArray[np.float64] | None = None
    """Occurrences of each of `output_ids`."""


@dataclass(frozen=True, slots=True)
class SamplingInputs:
    """The draws of one step."""

    draws: tuple[Draw, ...]
    """One per sampling row, in order of rows."""
    grammars: dict[int, Grammar] = field(default_factory=dict)
    """By row: grammars whose masks are filled in after the forward pass."""


def sampling_inputs(plan: StepPlan, grammars: dict[int, Grammar]) -> SamplingInputs:
    """Return one draw for each sampling row, still without the masks of `grammars`."""
    draws = tuple(_draw(index, row) for index, row in enumerate(plan.rows) if row.samples)
    return SamplingInputs(draws, grammars)


def needs_settled(plan: StepPlan) -> bool:
    """Return whether the sampling inputs of `plan` depend on the tokens of the plans before it."""
    return any(
        row.samples and (row.sequence.params.needs_counts or row.sequence.grammar is not None)
        for row in plan.rows
    )


def _draw(index: int, row: Row) -> Draw:
    sequence, request = row.sequence, row.sequence.request
    position = row.start + row.count
    draw = Draw(
        row=index,
        params=request.params,
        seed=request.seed,
        choice=sequence.choice,
        position=position,
        output_tokens=position - request.prompt_tokens,
    )
    if sequence.counts is None:
        return draw
    return _with_history(draw, request.prompt_ids, sequence.counts)


def _with_history(draw: Draw, prompt_ids: NDArray[np.int64] | None, counts: Counter[int]) -> Draw:
    return Draw(
        row=draw.row,
        params=draw.params,
        seed=draw.seed,
        choice=draw.choice,
        position=draw.position,
        output_tokens=draw.output_tokens,
        prompt_ids=prompt_ids,
        output_ids=np.fromiter(counts.keys(), np.int64, len(counts)),
        output_counts=np.fromiter(counts.values(), np.float64, len(counts)),
    )
