"""What the sampler needs from the host for one step: taken from the sequences when all before it is settled."""

from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.sampling_params import SamplingParams


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
