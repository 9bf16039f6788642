"""The batch cap of UtilizationBand: up while batch time allows it, down where it does not."""

from dataclasses import replace
from itertools import pairwise

from tests.unit.operator.decide.scaling.world import SETTINGS, World

ONE_REPLICA = replace(SETTINGS, max_replicas=1)


def steps(world: World) -> list[int]:
    """Return the caps in the order they were taken, each once."""
    caps = world.caps()
    return [cap for before, cap in zip([None, *caps], caps, strict=False) if cap != before]


def test_the_first_cap_is_size_min() -> None:
    world = World(settings=replace(SETTINGS, size_min=3))
    world.tick()
    assert world.last.cap == 3
    assert world.last.cap_term == "FirstCap"


def test_a_queue_raises_the_cap_by_a_quarter_at_most_every_30_seconds() -> None:
    world = World(rate=400, settings=replace(ONE_REPLICA, objective_milliseconds=None)).run(300)
    assert steps(world) == [1, 2, 3, 4, 5, 7, 9, 12, 15]
    moves = [
        i * 5
        for i, (a, b) in enumerate(zip(world.caps(), world.caps()[1:], strict=False))
        if a != b
    ]
    assert min(b - a for a, b in pairwise(moves)) >= 30


def test_a_cap_of_one_rises_when_one_request_waits() -> None:
    world = World(rate=21, settings=ONE_REPLICA).run(120)
    assert world.last.cap > 1


def test_the_cap_stops_where_the_next_row_would_break_the_objective() -> None:
    """T = 0.45 * (500 - 5) = 222 ms and t(b) = 40 + 5 b: 36 rows fit, 37 do not."""
    settings = replace(ONE_REPLICA, objective_milliseconds=500)
    world = World(rate=400, settings=settings).run(900)
    assert max(world.caps()) == 36
    assert world.caps()[-60:] == [36] * 60, "it rests there, without a limit cycle"
    assert world.last.cap_term == "BatchTimeTarget"


def test_a_tighter_objective_lowers_the_cap_step_by_step() -> None:
    world = World(rate=400, settings=replace(ONE_REPLICA, objective_milliseconds=None)).run(600)
    high = world.last.cap
    world.settings = replace(ONE_REPLICA, objective_milliseconds=300)
    world.run(300)
    assert world.last.observations.batch_target_seconds == 0.45 * 0.295
    terms = {decision.cap_term for decision in world.decisions[-60:]}
    assert "BatchTime" in terms
    assert world.last.cap < high
    assert 0.040 + 0.005 * world.last.cap <= 0.45 * 0.295


def test_without_an_objective_batch_time_never_binds() -> None:
    settings = replace(ONE_REPLICA, objective_milliseconds=None)
    world = World(rate=400, a=5.0, settings=settings).run(900)
    assert world.last.observations.batch_target_seconds is None
    assert world.last.cap == settings.size_max or world.last.cap_term == "Waiting"


def test_high_duty_alone_moves_no_cap() -> None:
    """Under batching (see docs/design/control-law.md#utilization-saturates-under-batching) the device reads busy at any load."""
    world = World(rate=1, cap=8, duty_says=1.0, settings=ONE_REPLICA).run(300)
    assert set(world.caps()) == {8}
    assert world.last.cap_term == "InBand"


def test_low_duty_raises_the_cap_while_a_larger_batch_would_fit() -> None:
    world = World(rate=2, cap=4, settings=ONE_REPLICA).run(120)
    assert world.last.cap > 4
    assert any(decision.cap_term == "LowDuty" for decision in world.decisions)


def test_an_out_of_memory_split_lowers_the_cap_while_the_device_is_busy() -> None:
    world = World(rate=400, cap=16, settings=ONE_REPLICA)
    world.run(60)
    splits = iter(range(1000))
    world.distort = lambda sample: replace(sample, out_of_memory_splits=float(next(splits)))
    world.run(40)
    assert any(decision.cap_term == "MemoryPressure" for decision in world.decisions)
    assert min(world.caps()[12:]) < world.caps()[11]


def test_the_cap_never_rises_above_what_a_pods_memory_allows() -> None:
    world = World(rate=400, settings=ONE_REPLICA)
    world.pods[0].cap_bound = 6
    world.run(600)
    assert max(world.caps()) == 6
    assert world.last.cap_term == "MemoryBound"


def test_no_step_is_taken_before_every_ready_pod_acknowledged_the_last() -> None:
    world = World(rate=400, settings=ONE_REPLICA).run(5)
    world.acknowledges = False
    world.run(300)
    assert set(world.caps()) == {1}
    assert world.last.cap_term == "Unacknowledged"
    world.acknowledges = True
    world.run(30)
    assert world.last.cap == 2


def test_an_edit_of_the_size_range_holds_at_once() -> None:
    world = World(rate=400, settings=ONE_REPLICA).run(400)
    assert world.last.cap > 6
    world.settings = replace(ONE_REPLICA, size_max=6)
    world.run(5)
    assert world.last.cap == 6
    world.settings = replace(ONE_REPLICA, size_min=32, size_max=64)
    world.run(5)
    assert world.last.cap == 32


def test_a_recommended_step_is_recommended_until_it_is_taken() -> None:
    world = World(rate=400, cap=8, settings=ONE_REPLICA, obey=False).run(200)
    assert world.caps()[-20:] == [10] * 20
