"""`SamplingParams`: the sampling and stop parameters of a request, validated by the HTTP side; `SamplingDefaults`: a model's."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SamplingDefaults:
    """The parameters of requests that leave them out, with the meaning that they have in `SamplingParams`."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """The parameters of one request.

    The sampler applies logit bias, then repetition, frequency and presence penalties, then the grammar's mask and the
    ban of stop ids below `min_tokens`, then temperature, min-p, top-k, top-p, then draws. Logits are float32 (float64
    in a float64 model).
    """

    max_tokens: int
    """At least 1; granted at admission (`limits.grant_tokens`), so it fits."""
    min_tokens: int = 0
    """Output tokens before which no stop id is sampled."""
    temperature: float = 1.0
    """0 takes the largest logit; of equal logits the lower id wins."""
    top_p: float = 1.0
    """Keep the fewest tokens whose probabilities sum to at least this; 1 keeps all."""
    top_k: int = 0
    """Number of tokens to keep; 0 keeps all."""
    min_p: float = 0.0
    """Keep tokens with at least this share of the top token's probability."""
    repetition_penalty: float = 1.0
    """Over prompt and output (transformers' definition): positive logits divided, negative multiplied."""
    presence_penalty: float = 0.0
    """Over the output (OpenAI's definition)."""
    frequency_penalty: float = 0.0
    """Over the output (OpenAI's definition)."""
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    """None: the HTTP side draws a seed per prompt, so that a preempted request continues unchanged."""
    max_run_seconds: float | None = None
    """Device time of its steps after which the generation finishes with reason length."""
    stop_ids: frozenset[int] = field(default_factory=frozenset)
    """Ids that end the generation, the model's own included unless the client ignores those."""
    logprobs: int | None = None
    """Number of alternatives to report in addition to the chosen token; None: no log-probabilities."""
    prompt_logprobs: int | None = None
    """The same for every prompt token but the first. Such a prompt does not use the prefix cache."""

    @property
    def needs_counts(self) -> bool:
        """Return whether a penalty depends on the tokens generated so far."""
        return (
            self.repetition_penalty != 1.0
            or self.presence_penalty != 0.0
            or self.frequency_penalty != 0.0
        )

    @property
    def greedy(self) -> bool:
        """Return whether the largest logit is taken."""
        return self.temperature == 0.0
