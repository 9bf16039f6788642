"""What metrics tell of a pool: figures of its last decision that no status holds at every tick. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figures:
    """None is not known."""

    wanted: int
    """Replicas that the law wants."""
    granted: int
    """Replicas that the Deployment is to ask for."""
    at_limit: bool
    """Whether a bound, a budget or the cluster keeps replicas from it."""
    signals_absent: bool
    """Whether Ready pods cannot be seen."""
    contested: bool
    """Whether somebody else keeps writing the Deployment's replicas."""
    demand: float | None
    """Rows a second."""
    forecast: float | None
    forecast_error: float | None
    """Rows a second that came, less those that were forecast for now."""
    utilization: float | None
    """Effective, as a share."""
    imbalance: float | None
    startup_seconds: float | None
    signal_age_seconds: float | None
    objective_good: float = 0.0
    """Requests on time since the pool was met."""
    objective_total: float = 0.0
