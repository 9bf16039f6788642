"""Live settings of a control law, from the effective spec."""

from dataclasses import dataclass, field

from penstock_operator.decide.spec.objectives import LATE_SHARE


@dataclass(frozen=True, slots=True)
class Guards:
    """Targets that the spec or a policy sets; None: neither does, and the built-in value guards nothing."""

    low_percent: int | None = None
    high_percent: int | None = None
    target_per_replica: int | None = None
    stabilization_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class AllowedLateShares:
    """Share of requests that may miss each objective, 0 to 1: 0.01 at 99 percent."""

    request: float = LATE_SHARE
    first_token: float = LATE_SHARE
    output_token: float = LATE_SHARE


@dataclass(frozen=True, slots=True)
class LawSettings:
    """The effective live settings of a law, after defaults, spec, bounds and schedules."""

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
    """Explicit targets, in addition to the law's own."""
    first_token_milliseconds: int | None = None
    """Objective TimeToFirstToken of pools that generate text."""
    output_token_milliseconds: int | None = None
    """Objective TimePerOutputToken of pools that generate text."""
    late: AllowedLateShares = field(default_factory=AllowedLateShares)

    @property
    def batch_late_share(self) -> float:
        """Return the share of batches, or of answers' steps, that may exceed the time that the objective leaves them."""
        if self.output_token_milliseconds is not None:
            return self.late.output_token
        return self.late.request
