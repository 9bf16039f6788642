"""Ray Serve's default autoscaling policy. Pure.

Source: `python/ray/serve/autoscaling_policy.py`. Defaults: 2 ongoing requests per replica, measured over 30 s, decided every 10 s;
the count changes after 30 s (up) or 600 s (down) of the same result. Its bound of 5 ongoing requests per replica is removed here, so that all
laws share one batch envelope.
"""

from dataclasses import dataclass, replace
from math import ceil

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_simulator.baselines.inputs import decided, in_flight, per_pod

LOOK_BACK_SECONDS = 30.0
INTERVAL_SECONDS = 10.0
UP_SECONDS = 30.0
DOWN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class RayState:
    """Ongoing requests of the last 30 s, and the number of consecutive decisions in one direction."""

    decided_at: float
    seen: tuple[tuple[float, float], ...] = ()
    streak: int = 0
    """Positive: consecutive decisions to scale up; negative: to scale down."""


class RayServe:
    """The default policy."""

    def __init__(self, target: float = 2.0, cap: int | None = None) -> None:
        self.name = f"ray-{target:g}"
        self._target = target
        self._cap = cap

    def initial(self, now: float) -> RayState:
        """Return the state of a controller that has just started."""
        return RayState(decided_at=now - INTERVAL_SECONDS)

    def step(self, state: RayState, observed: LawInput, now: float) -> tuple[RayState, Decision]:
        """Change the count after enough decisions in one direction."""
        current = observed.replicas
        values = per_pod(observed, in_flight)
        recent = [entry for entry in state.seen if now - entry[0] < LOOK_BACK_SECONDS]
        seen = (*recent, (now, sum(values.values()))) if values else tuple(recent)
        state = replace(state, seen=seen)
        if now - state.decided_at < INTERVAL_SECONDS or not seen:
            return state, decided(observed, current, self._cap, seen=bool(values))
        desired = ceil(sum(count for _, count in seen) / len(seen) / self._target)
        desired = min(max(desired, observed.settings.min_replicas), observed.settings.max_replicas)
        streak = _counted(state.streak, desired - current)
        moves = streak > UP_SECONDS / INTERVAL_SECONDS or -streak > DOWN_SECONDS / INTERVAL_SECONDS
        after = replace(state, decided_at=now, streak=0 if moves else streak)
        return after, decided(observed, desired if moves else current, self._cap)


def _counted(streak: int, move: int) -> int:
    if move > 0:
        return max(streak, 0) + 1
    if move < 0:
        return min(streak, 0) - 1
    return 0
