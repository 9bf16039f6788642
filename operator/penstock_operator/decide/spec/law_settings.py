"""Live settings of a control law: the effective spec makes them, the laws read them."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Guards:
    """Targets that the spec or a policy sets; None: only the built-in stands, and guards nothing."""

    low_percent: int | None = None
    high_percent: int | None = None
    target_per_replica: int | None = None
    stabilization_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class LawSettings:
    """The effective live settings a law obeys (after defaults, spec and bounds)."""

    objective_milliseconds: int | None
    size_min: int
    size_max: int
    max_queue_delay_milliseconds: int
    min_replicas: int
    max_replicas: int
    low_percent: int
    high_percent: int
    target_per_replica: int
    stabilization_seconds: int
    max_percent_per_minute: int
    guards: Guards = field(default_factory=Guards)
    """What the user asked for himself, beside what a law would do by itself."""
    first_token_milliseconds: int | None = None
    """The objective TimeToFirstToken, of pools that generate text."""
    output_token_milliseconds: int | None = None
    """The objective TimePerOutputToken, of the same."""
