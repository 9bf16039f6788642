"""One choice of one request, with all the state that generation needs: nothing of it lives in a slot or a step.

A sequence's KV can be thrown away at any time: `ids` hold prompt and output, a resume feeds them as prompt,
and only the position after the last known id is ever sampled.
"""

from collections import Counter
from dataclasses import dataclass, field

from msgspec import Struct

from penstock_runtime.engine.continuous.grammar.base import Grammar
from penstock_runtime.engine.continuous.messages import FinishReason, Logprob
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sampling_params import SamplingParams


class TokenRef(Struct, frozen=True, gc=False):
    """A token that a step in flight will sample: known to the device before it is known to the host."""

    step: int
    """`StepPlan.number`."""
    row: int
    """Index into that plan's `rows`."""


@dataclass(slots=True, eq=False)
class Sequence:
    """Mutable; compared by identity. Who writes what: the engine `ids` and ends, the scheduler the rest."""

    uid: int
    """Unique in the engine's life."""
    request_id: str
    choice: int
    ids: list[int]
    """Prompt, then output: every token that is known. Grows only by `append`."""
    prompt_tokens: int
    params: SamplingParams
    seed: int
    """With the choice and the position this fixes every draw."""
    arrived: float
    deadline: float | None = None
    priority: int = 0
    tenant: str = ""
    salt: str = ""
    grammar: Grammar | None = None

    counts: Counter[int] = field(default_factory=Counter)
    """Of output ids, for penalties; kept only where `params.needs_counts`."""
    unknown: TokenRef | None = None
    """The one token that is being sampled for it, if a step in flight does so."""
    computed: int = 0
    """Positions whose keys and values are in its blocks, or will be once the steps in flight have run."""
    cached_tokens: int = 0
    """Prompt tokens that the prefix cache had when it first ran."""
    first_step_at: float | None = None
    preemptions: int = 0
    run_seconds: float = 0.0
    """Of the steps that it took part in."""
    scored: int = 0
    """How many `scores` have."""
    scores: list[PromptScores] = field(default_factory=list)
    """Of the prompt's tokens from the second on, as far as they are known; only where they are wanted."""
    finished: FinishReason | None = None
    stop_id: int | None = None
    full_length: int = field(init=False)
    """Of the prompt and the longest answer that it may have."""
    counted: bool = field(init=False)
    """`params.needs_counts`, which is asked at every token."""

    def __post_init__(self) -> None:
        self.full_length = self.prompt_tokens + self.params.max_tokens
        self.counted = self.params.needs_counts

    @property
    def length(self) -> int:
        """Return the number of tokens, the unknown one included."""
        return len(self.ids) + (self.unknown is not None)

    @property
    def output_tokens(self) -> int:
        """Return how many known tokens were generated."""
        return len(self.ids) - self.prompt_tokens

    @property
    def to_compute(self) -> int:
        """Return how many positions must be fed before the next token can be sampled; 1 is a decode."""
        return self.length - self.computed

    @property
    def unscored(self) -> int:
        """Return how many tokens of the prompt still lack a log-probability that is wanted."""
        wanted = self.params.prompt_logprobs is not None and self.choice == 0
        return self.prompt_tokens - 1 - self.scored if wanted else 0

    @property
    def reusable(self) -> int:
        """Return how many leading positions need not be fed if a cache has them: logits are in no cache."""
        return self.scored if self.unscored else self.length

    def scored_within(self, start: int, count: int) -> int:
        """Return how many of `count` positions from `start` on foretell a token that lacks its score."""
        return max(0, min(count, self.prompt_tokens - 1 - start)) if self.unscored else 0

    def score(self, start: int, scores: PromptScores) -> bool:
        """Take in what positions from `start` on foretold, some of it perhaps again; return whether all is known."""
        new = scores.between(self.scored - start)
        self.scores.append(new)
        self.scored += len(new)
        return not self.unscored

    @property
    def at_last_token(self) -> bool:
        """Return whether the token in flight is the last that `max_tokens` allows: plan no more."""
        return self.length >= self.full_length

    def append(self, token: int) -> FinishReason | None:
        """Take in the sampled `token` and return why the choice ends with it, or None if it goes on.

        A stop id is not appended. `unknown` is the scheduler's: it may by now name a token of the step
        after this one.
        """
        params, ids = self.params, self.ids
        if token in params.stop_ids and self.output_tokens >= params.min_tokens:
            self.finished, self.stop_id = FinishReason.STOP, token
            return self.finished
        ids.append(token)
        if self.counted:
            self.counts[token] += 1
        if self.grammar is not None:
            self.grammar.accept(token)
        if len(ids) >= self.full_length or (params.max_run_seconds is not None and self._overruns):
            self.finished = FinishReason.LENGTH
        return self.finished

    def draw_again(self) -> None:
        """Have the last known token fed again: nothing was drawn after it."""
        self.unknown = None
        self.computed = min(self.computed, len(self.ids) - 1)

    @property
    def _overruns(self) -> bool:
        most = self.params.max_run_seconds
        return most is not None and self.run_seconds >= most


class SampledToken(Struct, frozen=True, gc=False):
    """What a step drew for one row."""

    token: int
    logprob: Logprob | None = None
