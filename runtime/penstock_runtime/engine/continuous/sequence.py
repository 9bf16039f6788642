"""`Sequence`: the tokens of one choice of a request and everything that its generation needs to continue.

A sequence's KV blocks can be released at any time: `ids` hold prompt and output, a resumed sequence feeds them
as its prompt, and only the position after the last known id is ever sampled.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.messages import FinishReason, Logprob
from penstock_runtime.engine.continuous.prompt_scores import PromptScoring
from penstock_runtime.engine.continuous.sampling_params import SamplingParams


class TokenRef(Struct, frozen=True, gc=False):
    """A token that a step in flight will sample: the device has it before the host does."""

    step: int
    """`StepPlan.number`."""
    row: int
    """Index into that plan's `rows`."""


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """What all sequences of one request share; it never changes."""

    id: str
    prompt_tokens: int
    params: SamplingParams
    seed: int
    """Fixes every draw, together with the choice and the position."""
    arrived: float
    """Arrival of the request, in seconds of the monotonic clock, as `deadline`."""
    deadline: float | None = None
    priority: int = 0
    tenant: str = ""
    salt: str = ""
    """Prefix-cache namespace: only equal salts share blocks."""
    prompt_ids: NDArray[np.int64] | None = field(default=None, compare=False, repr=False)
    """Distinct ids of the prompt, for a repetition penalty; None without one."""


@dataclass(slots=True)
class SequenceStats:
    """The usage of one sequence, written by the scheduler."""

    first_step_at: float | None = None
    cached_tokens: int = 0
    """Prompt tokens that the prefix cache supplied when the sequence first ran."""
    preemptions: int = 0


@dataclass(slots=True, eq=False)
class Sequence:
    """One choice of a request; mutable and compared by identity.

    The scheduler writes `placeholder`, `computed` and `stats`, the engine everything else.
    """

    uid: int
    """Unique during the engine's lifetime."""
    request: RequestSpec
    choice: int
    ids: list[int]
    """All known tokens, prompt then output; grows only by `append`."""
    grammar: Grammar | None = None

    placeholder: TokenRef | None = None
    """The token that a step in flight samples for this sequence."""
    computed: int = 0
    """Positions whose keys and values are in its blocks, or will be once the steps in flight have run."""
    stats: SequenceStats = field(default_factory=SequenceStats)

    run_seconds: float = 0.0
    """Device time of the steps with a row of this sequence."""
    finished: FinishReason | None = None
    stop_id: int | None = None
    params: SamplingParams = field(init=False)
    """`request.params`, which every token reads."""
    counts: Counter[int] | None = field(init=False)
    """Occurrences of each output id, for penalties; None where no penalty needs them."""
    prompt_scoring: PromptScoring | None = field(init=False)
    """None where no log-probabilities of the prompt are wanted."""
    full_length: int = field(init=False)
    """Tokens of the prompt and its longest answer."""

    def __post_init__(self) -> None:
        params, prompt_tokens = self.request.params, self.request.prompt_tokens
        scored = params.prompt_logprobs is not None and self.choice == 0
        self.params = params
        self.counts = Counter() if params.needs_counts else None
        self.prompt_scoring = PromptScoring(prompt_tokens - 1) if scored else None
        self.full_length = prompt_tokens + params.max_tokens

    def resume(self, tokens: tuple[int, ...]) -> None:
        """Append the output that another pod sampled; called before the sequence is scheduled."""
        self.ids.extend(tokens)
        if self.counts is not None:
            self.counts.update(tokens)

    @property
    def length(self) -> int:
        """Return the number of tokens, a placeholder included."""
        return len(self.ids) + (self.placeholder is not None)

    @property
    def output_tokens(self) -> int:
        """Return the number of known tokens after the prompt."""
        return len(self.ids) - self.request.prompt_tokens

    @property
    def to_compute(self) -> int:
        """Return how many positions must be fed before the next token can be sampled; 1 is a decode."""
        return self.length - self.computed

    @property
    def reusable(self) -> int:
        """Return how many leading positions a prefix cache may supply: it holds no logits to score a prompt with."""
        scoring = self.prompt_scoring
        return scoring.known if scoring is not None and scoring.missing else self.length

    @property
    def at_last_token(self) -> bool:
        """Return whether the token in flight is the last that `max_tokens` allows."""
        return self.length >= self.full_length

    def append(self, token: int) -> FinishReason | None:
        """Append the sampled `token`; return why the choice ends with it, or None if it continues.

        A stop id is not appended. `placeholder` stays: it may already refer to a token of the next step.
        """
        params, ids = self.params, self.ids
        if token in params.stop_ids and self.output_tokens >= params.min_tokens:
            self.finished, self.stop_id = FinishReason.STOP, token
            return self.finished
        ids.append(token)
        if self.counts is not None:
            self.counts[token] += 1
        if self.grammar is not None:
            self.grammar.accept(token)
        if len(ids) >= self.full_length or (params.max_run_seconds is not None and self._overruns):
            self.finished = FinishReason.LENGTH
        return self.finished

    def draw_again(self) -> None:
        """Feed the last known token again in the next plan: no token was drawn after it."""
        self.placeholder = None
        self.computed = min(self.computed, len(self.ids) - 1)

    @property
    def _overruns(self) -> bool:
        limit = self.params.max_run_seconds
        return limit is not None and self.run_seconds >= limit


class SampledToken(Struct, frozen=True, gc=False):
    """The token that a step sampled for one row."""

    token: int
    logprob: Logprob | None = None
