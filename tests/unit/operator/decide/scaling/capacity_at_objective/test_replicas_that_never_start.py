"""`CapacityAtObjective` while requested replicas never become Ready: cap and count still change (dynamo#14251)."""

from itertools import pairwise

from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import STUCK_SECONDS
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.reasons import CapReason
from tests.unit.operator.decide.scaling.capacity_at_objective.test_closed_loop import ROOMY
from tests.unit.operator.decide.scaling.world import Replica, World

NEVER = 1e9


def overloaded(**changes: object) -> World:
    """One replica that serves 76 rows/s has two minutes of 200 rows/s; further replicas never become Ready."""
    world = World(settings=ROOMY, a=0.1, c=0.01, seed=3, rate=50.0, cap=32, warms_up=True,
                  law=CapacityAtObjective(), **changes)  # type: ignore[arg-type]  # fmt: skip
    world.run(300)
    world.replicas, world.pods = 1, world.pods[:1]
    world.cold_start, world.rate = NEVER, 200.0
    return world.run(120)


def placed(pod: Replica) -> bool:
    return pod.ready_at < NEVER


def turns(counts: list[int]) -> int:
    moves = [after - before for before, after in pairwise(counts) if after != before]
    return sum((before > 0) != (other > 0) for before, other in pairwise(moves))


def test_an_unschedulable_pod_freezes_neither_cap_nor_count() -> None:
    world = overloaded(placed=placed)
    assert len(world.ready) == 1
    high, planned = world.replicas, world.last.observations.planned_cap
    assert high > 4, "requested, whether or not they can be placed"
    down = len(world.decisions)
    world.rate = 5.0
    world.run(600)
    assert world.replicas <= high / 2
    assert world.last.cap_term == CapReason.OBJECTIVE
    assert world.last.cap >= (planned or 0), "the back-off ends with the overload"
    world.run(1800)
    assert world.replicas == 1
    assert turns(world.counts()[down:]) == 0


def test_the_time_that_a_pod_waits_for_a_node_is_not_taken_for_its_start() -> None:
    world = overloaded(placed=placed)
    before = world.last.observations.startup_seconds
    assert world.run(600).last.observations.startup_seconds == before


def test_a_pod_that_never_loads_is_removed_soon_after_its_start_counts_as_stuck() -> None:
    """Until then it may be a large model, and the count is held for a start-up; the cap is not held."""
    world = overloaded()
    high, planned = world.replicas, world.last.observations.planned_cap
    world.rate = 5.0
    world.run(300)
    assert world.last.cap_term == CapReason.OBJECTIVE
    assert world.last.cap >= (planned or 0), "the back-off ends with the overload"
    world.run(STUCK_SECONDS)
    assert world.replicas <= high / 2
