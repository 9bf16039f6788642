"""`ServingState`: the health, counters and limits that the parts of one pod share."""

from collections.abc import Callable
from dataclasses import dataclass

from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.health import Health
from penstock_runtime.serving.limits import LiveLimits


@dataclass(frozen=True, slots=True)
class ServingState:
    """Shared by a pod, its admission and its engine client."""

    live: LiveLimits
    health: Health
    counters: Counters
    now: Callable[[], float]
    """Monotonic clock, in seconds."""
