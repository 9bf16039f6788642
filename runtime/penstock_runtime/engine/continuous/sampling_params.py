"""How tokens are chosen and when a generation stops: one client's wish, checked before it gets here."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The wishes of one request, in the order in which the sampler applies them.

    logit bias, then repetition, frequency and presence penalties, then the grammar's mask and the ban of
    stop ids below `min_tokens`, then temperature, top-k, top-p, min-p, then the draw. Logits are float32
    (float64 in a float64 model).
    """

    max_tokens: int
    """At least 1; what the door granted (`length_limit.grant_tokens`), never more than fits."""
    min_tokens: int = 0
    """No stop id is sampled before so many tokens."""
    temperature: float = 1.0
    """0 takes the largest logit; the lower id wins a tie."""
    top_p: float = 1.0
    """Keep the fewest tokens whose probabilities sum to at least this; 1 keeps all."""
    top_k: int = 0
    """Keep so many; 0 keeps all."""
    min_p: float = 0.0
    """Keep tokens of at least this share of the likeliest's probability."""
    repetition_penalty: float = 1.0
    """Over prompt and output (transformers' definition): positive logits divided, negative multiplied."""
    presence_penalty: float = 0.0
    """Over the output (OpenAI's definition)."""
    frequency_penalty: float = 0.0
    """Over the output (OpenAI's definition)."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    """None: the HTTP side draws one for each prompt, so that a preempted request goes on as it would have."""
    max_run_seconds: float | None = None
    """Of steps that it takes part in; then it finishes with what it has, for length."""
    stop_ids: frozenset[int] = field(default_factory=frozenset)
    """Ids that end the generation, the model's own included unless the client ignores those."""
    logprobs: int | None = None
    """How many alternatives to report beside the chosen token's own; None: no log-probabilities."""
    prompt_logprobs: int | None = None
    """The same of every token of the prompt but the first. Such a prompt finds nothing in the prefix cache."""

    @property
    def needs_counts(self) -> bool:
        """Return whether any penalty looks back at what was generated."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @property
    def greedy(self) -> bool:
        """Return whether the largest logit is taken."""
        return self.temperature == 0.0
