"""What the HTTP side counts of generation, beside what it counts of every request."""

from dataclasses import dataclass, field

from penstock_runtime.serving.histogram import SECONDS, Histogram


@dataclass(slots=True)
class GenerationCounters:
    """Since the process started. Durations are of completed requests, as their clients saw them."""

    prompt_tokens_received: int = 0
    """Of every prompt that was read, before anything else is judged."""
    prompt_tokens: int = 0
    """Of completed requests; those found in the prefix cache included."""
    cached_prompt_tokens: int = 0
    prefill_tokens: int = 0
    """That steps computed."""
    generated_tokens: int = 0
    """Told or not, as they were emitted."""
    slow_readers: int = 0
    """Clients that were given up because they did not read."""
    first_token_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    token_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Mean time between a request's tokens after its first."""
