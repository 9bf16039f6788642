"""`PlansInFlight`: the plans that have not settled, and the blocks that are released when they do."""

from collections import deque
from dataclasses import dataclass, field

from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan


@dataclass(slots=True)
class PlanInFlight:
    """A plan that has not settled, and the blocks to release when it does."""

    plan: StepPlan
    states: list[SequenceState] = field(default_factory=list)
    """The sequence of each row."""
    released: list[list[int]] = field(default_factory=list)
    copied: list[list[int]] = field(default_factory=list)
    """Blocks that the plan swaps out."""
    host_released: list[list[int]] = field(default_factory=list)


class PlansInFlight:
    """Plans in order of number; the latest may still be a draft."""

    __slots__ = ("_plans",)

    def __init__(self) -> None:
        self._plans: deque[PlanInFlight] = deque()

    def __len__(self) -> int:
        return len(self._plans)

    @property
    def latest(self) -> PlanInFlight:
        """The plan that began last."""
        return self._plans[-1]

    @property
    def blocks(self) -> int:
        """Number of device blocks that these plans will release, shared ones included."""
        return sum(
            len(blocks) for flight in self._plans for blocks in (*flight.released, *flight.copied)
        )

    def begin(self, plan: StepPlan) -> PlanInFlight:
        """Add the draft `plan`."""
        flight = PlanInFlight(plan)
        self._plans.append(flight)
        return flight

    def withdraw(self) -> None:
        """Remove the latest plan, a draft without work."""
        self._plans.pop()

    def settle(self, plan: StepPlan) -> PlanInFlight:
        """Remove and return the entry of `plan`.

        Raises:
            ValueError: an earlier plan has not settled.
        """
        flight = self._plans.popleft()
        if flight.plan is not plan:
            raise ValueError(f"plan {plan.number} settles before plan {flight.plan.number}")
        return flight

    def find(self, number: int) -> PlanInFlight | None:
        """Return the plan with this number, or None if it has settled."""
        for flight in self._plans:
            if flight.plan.number == number:
                return flight
        return None
