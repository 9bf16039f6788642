"""Ray Serve's default autoscaling policy. Pure.

Source: `python/ray/serve/autoscaling_policy.py`. Defaults: 2 ongoing requests a replica, measured over 30 s, decided every 10 s;
the count moves after 30 s (up) or 600 s (down) of the same wish. Its bound of 5 ongoing requests a replica is lifted here, so that all
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
    """Ongoing requests of the last 30 s, and for how many decisions one direction was wished."""

    decided_at: float
    seen: tuple[tuple[float, float], ...] = ()
    wishes: int = 0
    """Positive: decisions in a row for up; negative: for down."""


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
        """Move after enough decisions in one direction."""
        current = observed.replicas
        values = per_pod(observed, in_flight)
        recent = [entry for entry in state.seen if now - entry[0] < LOOK_BACK_SECONDS]
        seen = (*recent, (now, sum(values.values()))) if values else tuple(recent)
        state = replace(state, seen=seen)
        if now - state.decided_at < INTERVAL_SECONDS or not seen:
            return state, decided(observed, current, self._cap, seen=bool(values))
        wish = ceil(sum(count for _, count in seen) / len(seen) / self._target)
        wish = min(max(wish, observed.settings.min_replicas), observed.settings.max_replicas)
        wishes = _counted(state.wishes, wish - current)
        moves = wishes > UP_SECONDS / INTERVAL_SECONDS or -wishes > DOWN_SECONDS / INTERVAL_SECONDS
        after = replace(state, decided_at=now, wishes=0 if moves else wishes)
        return after, decided(observed, wish if moves else current, self._cap)


def _counted(wishes: int, move: int) -> int:
    if move > 0:
        return max(wishes, 0) + 1
    if move < 0:
        return min(wishes, 0) - 1
    return 0
