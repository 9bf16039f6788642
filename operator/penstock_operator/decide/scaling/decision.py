"""From what a law wants to what is done: the modes of the two valves, and what is said about it.

Every law obeys the modes alike, because they are applied here and nowhere else (DESIGN, section 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock_api.conditions import Condition
from penstock_api.limits import LimitsUpdate
from penstock_api.status import LastDecision, ScalingStatus
from penstock_operator.decide.plan import EventNote
from penstock_operator.decide.scaling.law import Decision
from penstock_operator.observed import PoolView

if TYPE_CHECKING:
    from penstock_operator.decide.effective import EffectiveSpec


@dataclass(frozen=True, slots=True)
class ScalingOutcome:
    """What to do with both valves of one pool now, and what to say about it."""

    cap: int
    """The batch cap to publish, in rows."""
    recommended_cap: int
    """What the law wants; differs from `cap` in batching modes Recommend and Fixed."""
    replicas: int
    """For the Deployment."""
    desired_replicas: int
    """For `status.desiredReplicas`: the law's wish in Auto and Recommend, the frozen count in Hold,
    `spec.replicas` in Manual."""
    acted: str
    """Acted | Recommended | Held."""
    decision: Decision
    conditions: tuple[Condition, ...]
    """Scaling and MetricsAvailable, without times."""
    events: tuple[EventNote, ...]
    scaling_status: ScalingStatus
    last_decision: LastDecision | None
    """The last decision that moved, or wanted to move, a valve; None before the first."""


def decide_scaling(
    effective: EffectiveSpec,
    view: PoolView,
    published: LimitsUpdate | None,
    state: object | None,
    now: float,
) -> tuple[object, ScalingOutcome]:
    """Return the next state of the pool's law and what to do with both valves.

    `published` are the limits in force, None before the first; `state` is what this function
    returned at the last tick, None for a pool just met (also after the operator restarts).
    """
    raise NotImplementedError
