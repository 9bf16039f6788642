"""`GenerationCounters`: token counters of a pod that generates text."""

from dataclasses import dataclass, field

from penstock_runtime.serving.counters import SECONDS, Histogram


@dataclass(slots=True)
class GenerationCounters:
    """Totals since the process started. Durations are those of completed requests on the HTTP side."""

    prompt_tokens_received: int = 0
    """Prompt tokens of all requests that were read, before any check."""
    prompt_tokens: int = 0
    """Prompt tokens of completed requests, cached ones included."""
    cached_prompt_tokens: int = 0
    prefill_tokens: int = 0
    """Prompt tokens that steps computed."""
    generated_tokens: int = 0
    """Tokens that the engine emitted, delivered or not."""
    handed_over: int = 0
    """Generations that a drain interrupted here, and that other pods continue."""
    taken_over: int = 0
    """Generations of other pods that were continued here."""
    handovers_failed: int = 0
    """Generations that no other pod completed."""
    slow_readers: int = 0
    """Requests that were cancelled because their clients read too slowly."""
    first_token_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    token_seconds: Histogram = field(default_factory=lambda: Histogram(SECONDS))
    """Mean time between the tokens of a request after its first."""
