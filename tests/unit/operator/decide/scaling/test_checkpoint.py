"""The law's state survives a restart in a ConfigMap that is written rarely and validated on reading."""

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from penstock_api.types.scaling import ScalingAlgorithm
from penstock_operator.decide.actions import Write
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning.planner_state import PlannerState
from penstock_operator.decide.scaling import checkpoint
from penstock_operator.decide.scaling.capacity_at_objective.serialize import (
    from_checkpoint,
    to_checkpoint,
)
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.decision import LAWS, ScalingState
from penstock_operator.observed import PoolSignals, SignalSource
from tests.bench.decide.fleet import SPEC, TICK, signals
from tests.unit.operator.decide.world import NOW, World, known, pod, pool

NAME = "chat-penstock-memory"


def working() -> World:
    """A pool of three Ready pods under load, settled."""
    world = World(pool=pool(**SPEC))
    world.settle()
    world.pods = tuple(
        pod(f"chat-{number}", ip=f"10.0.0.{number}", created=NOW - 600, revision=world.revision)
        for number in (1, 2, 3)
    )
    world.settle()
    return world


def ticks(world: World, number: int) -> list[PoolPlan]:
    """Run so many ticks under load and apply their plans, including the checkpoint."""
    plans = []
    for _ in range(number):
        world.signals = signals(0, world, world.now)
        plan = world.settle()
        if plan.checkpoint is not None:
            world.store(plan.checkpoint)
        plans.append(plan)
    return plans


def law_state(world: World) -> CapacityState:
    memory = world.states[world.pool.uid]
    assert isinstance(memory, PlannerState)
    assert isinstance(memory.scaling, ScalingState)
    assert isinstance(memory.scaling.law, CapacityState)
    return memory.scaling.law


def data_of(plan: PoolPlan) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(known(plan.checkpoint).manifest["data"]["memory.json"])
    return data


def test_it_is_written_after_a_minute_and_owned_by_the_pool() -> None:
    plans = ticks(working(), 20)
    kept = [index for index, plan in enumerate(plans) if plan.checkpoint is not None]
    assert kept[0] * TICK >= 45
    write = known(plans[kept[0]].checkpoint)
    assert (write.write, write.kind) == (Write.CREATE, "ConfigMap")
    assert write.manifest["metadata"]["name"] == NAME
    assert write.manifest["metadata"]["ownerReferences"][0]["uid"] == "uid-chat"
    assert len(write.manifest["data"]["memory.json"]) < 4096


def test_it_is_written_at_most_every_minute_and_only_after_a_change() -> None:
    world = working()
    kept = [plan for plan in ticks(world, 120) if plan.checkpoint is not None]
    assert 1 <= len(kept) <= 10
    times = [data_of(plan)["written"] for plan in kept]
    assert all(later - earlier >= 60 for earlier, later in pairwise(times))


def test_a_pool_without_load_or_news_writes_once_in_30_to_60_minutes() -> None:
    world = working()
    ticks(world, 40)
    kept = []
    for _ in range(200):
        world.now += 60
        plan = world.settle()
        if plan.checkpoint is not None:
            world.store(plan.checkpoint)
            kept.append(data_of(plan)["written"])
    assert 3 <= len(kept) <= 6
    assert all(1800 <= later - earlier <= 3700 for earlier, later in pairwise(kept))


def test_the_refreshes_of_many_pools_are_spread_over_half_an_hour() -> None:
    seconds = sorted(checkpoint._refresh_seconds(f"uid-{number}") for number in range(1000))
    assert 1800 <= seconds[0] < seconds[500] < seconds[-1] <= 3600
    assert 2500 < seconds[500] < 2900


def test_a_leader_that_has_no_demand_yet_keeps_the_stored_one() -> None:
    world = working()
    ticks(world, 60)
    world.states.clear()
    world.now += 1200
    world.signals = PoolSignals(SignalSource.NONE)
    stored = world.children["ConfigMap", NAME]
    known_before = json.loads(stored.manifest["data"]["memory.json"])
    known_before["data"]["starts"] = [20.0]
    manifest = {**stored.manifest, "data": {"memory.json": json.dumps(known_before)}}
    world.children["ConfigMap", NAME] = replace(stored, manifest=manifest)
    for _ in range(5):
        assert world.settle().checkpoint is None
        world.now += 30
    assert to_checkpoint(law_state(world))["level"] is None
    world.now += 2 * 3600
    for _ in range(3):
        kept = world.settle().checkpoint
        world.now += 60
    after = json.loads(known(kept).manifest["data"]["memory.json"])["data"]
    assert after["curve"] == known_before["data"]["curve"]
    assert after["level"] is None, "a demand that is not known any more does not get younger"


def test_a_pool_without_data_writes_nothing() -> None:
    world = World(pool=pool(**SPEC))
    for _ in range(40):
        world.now += 30
        assert world.settle().checkpoint is None


def test_a_restarted_operator_continues_from_it() -> None:
    world = working()
    ticks(world, 60)
    before = law_state(world)
    assert before.forecaster.errors.latest
    world.states.clear()
    world.signals = signals(0, world, world.now)
    world.settle()
    after = law_state(world)
    assert after.forecaster.level == pytest.approx(before.forecaster.level, rel=0.4)
    assert len(after.forecaster.errors.latest) >= 1
    assert after.forecaster.mean == pytest.approx(before.forecaster.mean, rel=0.4)
    assert after.forecaster.judgements > 0
    assert after.counting.begun == world.now - TICK


def test_a_restart_lowers_nothing_before_a_whole_hold() -> None:
    world = working()
    ticks(world, 60)
    replicas = known(world.run().status.desired_replicas)
    world.states.clear()
    world.edit_spec(scaling={**SPEC["scaling"], "scaleDown": {"stabilizationSeconds": 90}})
    lowest = min(known(plan.status.desired_replicas) for plan in ticks(world, 17))
    assert lowest >= replicas


def test_it_is_the_same_after_a_round_trip() -> None:
    world = working()
    ticks(world, 60)
    state = law_state(world)
    once = to_checkpoint(state)
    text = json.loads(json.dumps(once))
    again = to_checkpoint(
        from_checkpoint(LAWS[ScalingAlgorithm.CAPACITY_AT_OBJECTIVE].initial(NOW), text, NOW, NOW)
    )
    for key in ("starts", "level", "trend", "noise", "imbalance", "dispersion"):
        assert again[key] == once[key], key
    assert again["misses"][-1] == once["misses"][-1]


WRONG: list[Any] = [
    None, [], "x", 7, {"level": -1, "starts": "no", "misses": [None, "a", 1e99], "curve": []},
    {"level": 1e300, "price": 9000, "imbalance": -4, "dispersion": "much", "revision": 3},
    {"starts": [float("nan"), -5, 1e9], "curve": {"batches": 1e99}, "largestRows": 4},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_hand_edited_data_is_validated_and_never_fatal(wrong: Any) -> None:
    world = working()
    ticks(world, 20)
    stored = world.children["ConfigMap", NAME]
    text = json.dumps({"algorithm": "CapacityAtObjective", "written": world.now, "data": wrong})
    manifest = {**stored.manifest, "data": {"memory.json": text}}
    world.children["ConfigMap", NAME] = replace(stored, manifest=manifest)
    world.states.clear()
    plans = ticks(world, 4)
    assert known(plans[-1].status.desired_replicas) <= 12
    assert law_state(world).startup.finished == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"written": "x"}',
        "[" * 5000,
        f'{{"algorithm": "a", "written": 1{400 * "0"}}}',
    ],
)
def test_an_invalid_checkpoint_is_none(text: str) -> None:
    world = working()
    ticks(world, 20)
    stored = world.children["ConfigMap", NAME]
    manifest = {**stored.manifest, "data": {"memory.json": text}}
    world.children["ConfigMap", NAME] = replace(stored, manifest=manifest)
    assert checkpoint.stored_checkpoint(world.view()) is None
    world.states.clear()
    ticks(world, 2)


def test_of_an_old_checkpoint_starts_price_and_curves_remain() -> None:
    initial = LAWS[ScalingAlgorithm.CAPACITY_AT_OBJECTIVE].initial(NOW)
    world = working()
    ticks(world, 60)
    data = {**to_checkpoint(law_state(world)), "level": 50.0, "starts": [20.0], "price": 20.0}
    old = from_checkpoint(initial, data, NOW - 7 * 3600, NOW)
    assert (old.forecaster, old.measured) == (initial.forecaster, None)
    assert (old.startup.finished, old.lateness.lateness_price) == ((20.0,), 20.0)
    assert old.curves.gone[data["revision"]].data.batches == data["curve"]["batches"]
    aged = from_checkpoint(initial, data, NOW - 3600, NOW)
    assert (aged.forecaster.time, aged.startup.finished) == (None, (20.0,))
    assert from_checkpoint(initial, data, NOW - 60, NOW).forecaster.level == 50.0


def test_a_checkpoint_ahead_of_a_clock_that_stepped_back_is_of_this_moment() -> None:
    initial = LAWS[ScalingAlgorithm.CAPACITY_AT_OBJECTIVE].initial(NOW)
    data = {"level": 50.0, "starts": [20.0]}
    ahead = from_checkpoint(initial, data, NOW + 300, NOW)
    assert (ahead.forecaster.level, ahead.forecaster.time) == (50.0, NOW)
    far = from_checkpoint(initial, data, NOW + 7200, NOW)
    assert (far.forecaster.time, far.startup.finished) == (None, (20.0,))


def test_checkpoints_go_on_when_the_clock_stepped_back() -> None:
    world = working()
    ticks(world, 60)
    world.now -= 900
    written = [data_of(plan)["written"] for plan in ticks(world, 40) if plan.checkpoint]
    assert written
    assert written[0] < world.now


def test_an_object_of_another_owner_is_left_alone() -> None:
    world = working()
    ticks(world, 20)
    stored = world.children["ConfigMap", NAME]
    world.children["ConfigMap", NAME] = replace(stored, controller_uid="another")
    assert checkpoint.stored_checkpoint(world.view()) is None
    assert all(plan.checkpoint is None for plan in ticks(world, 40))


@pytest.mark.parametrize(("source", "scrapes"), [("Prometheus", 3), ("Pods", 1)])
def test_a_new_leader_holds_the_count_until_windows_have_four_scrapes(
    source: str, scrapes: int
) -> None:
    world = working()
    ticks(world, 60)
    before = known(world.run().status.desired_replicas)
    world.states.clear()
    for number in range(scrapes, 5):
        world.signals = latest_scrapes(signals(0, world, world.now), SignalSource(source), scrapes)
        assert world.settle().status.desired_replicas == before
        assert (law_state(world).forecaster.time == world.now - TICK) is (number >= 4)


def latest_scrapes(answer: PoolSignals, source: SignalSource, scrapes: int) -> PoolSignals:
    """Return the signals of `source`, with the latest scrapes only."""
    times = sorted({sample.time for sample in answer.samples})[-scrapes:]
    samples = tuple(sample for sample in answer.samples if sample.time in times)
    return replace(answer, source=source, samples=samples)
