"""Published limits and their generation: when it changes, and when it must not."""

import json
from dataclasses import replace

import pytest

from penstock_api.pod_contract import (
    MAX_BATCH_SIZE,
    MAX_QUEUE_DELAY_MILLISECONDS,
    MAX_QUEUE_DEPTH,
    Envelope,
    LimitsUpdate,
    Range,
)
from penstock_api.types.status import BatchStatus
from penstock_operator.observed import Acknowledgement
from tests.unit.operator.decide.world import World, known, pod, settled, written

CONFIG_MAP = ("ConfigMap", "chat-penstock")


def published(world: World) -> LimitsUpdate:
    return LimitsUpdate.model_validate_json(
        world.children[CONFIG_MAP].manifest["data"]["limits.json"]
    )


def test_the_first_generation_is_one_and_carries_the_spec() -> None:
    limits = World().limits()
    assert limits.generation == 1
    assert (limits.max_queue_depth, limits.max_queue_delay_milliseconds) == (2048, 5)
    assert limits.discipline == "Priority"


def test_pushed_limits_are_inside_the_envelope_of_a_pod_with_a_cache_of_one_token() -> None:
    limits = World().limits()
    least = Envelope(
        max_batch_size=Range(min=1, max=MAX_BATCH_SIZE),
        max_queue_depth=Range(min=1, max=MAX_QUEUE_DEPTH),
        max_queue_delay_milliseconds=Range(min=0, max=MAX_QUEUE_DELAY_MILLISECONDS),
        max_batched_tokens=Range(min=1, max=1),
    )
    assert least.outside(limits) is None


def test_tokens_of_a_step_are_published_if_they_are_set_and_cover_the_cap() -> None:
    world = settled()
    assert world.limits().max_batched_tokens is None
    for tokens, cap, published_tokens in ((1024, 64, 1024), (16, 64, 64)):
        world.edit_spec(
            batching={"mode": "Fixed", "size": {"max": cap}, "maxBatchedTokens": tokens}
        )
        limits = known(world.settle().limits)
        assert (limits.max_batch_size, limits.max_batched_tokens) == (cap, published_tokens)
    world.edit_spec(batching={})
    assert known(world.settle().limits).max_batched_tokens is None


def test_the_config_map_contains_the_pushed_limits() -> None:
    world = settled()
    assert published(world) == world.limits()


def test_a_live_edit_takes_the_next_generation_and_writes_only_the_config_map() -> None:
    world = settled()
    world.edit_spec(batching={"maxQueueDepth": 7})
    plan = world.run()
    assert (known(plan.limits).generation, known(plan.limits).max_queue_depth) == (2, 7)
    assert written(plan) == [("Apply", *CONFIG_MAP)]
    assert [push.update.generation for push in plan.pushes] == [2]


def test_a_generation_stays_while_the_limits_do() -> None:
    world = settled()
    for _ in range(5):
        assert known(world.settle().limits).generation == 1


def test_a_new_leader_keeps_the_published_generation() -> None:
    world = settled()
    world.states.clear()
    world.lease_transitions = 3
    plan = world.run()
    assert known(plan.limits).generation == 1
    assert plan.writes == ()


def test_a_new_leaders_first_change_exceeds_all_earlier_generations() -> None:
    world = settled()
    world.states.clear()
    world.lease_transitions = 3
    world.edit_spec(batching={"maxQueueDepth": 7})
    assert world.limits().generation == 1 + 3 * 2**32


def test_a_change_exceeds_every_acknowledged_generation() -> None:
    world = settled()
    world.acknowledgements["uid-chat-1"] = Acknowledgement(40, 64)
    world.edit_spec(batching={"maxQueueDepth": 7})
    assert world.limits().generation == 41


def test_a_generation_above_the_published_one_is_exceeded() -> None:
    world = settled()
    world.acknowledgements["uid-chat-1"] = Acknowledgement(40, 64)
    plan = world.run()
    assert known(plan.limits).generation == 41
    assert len(plan.pushes) == 1


def test_a_lost_config_map_does_not_lower_the_generation() -> None:
    world = settled()
    world.edit_spec(batching={"maxQueueDepth": 7})
    world.settle()
    del world.children[CONFIG_MAP]
    world.states.clear()
    world.acknowledgements.clear()
    assert known(world.pool.status.batch).generation == 2
    assert world.limits().generation == 3


def test_a_stale_cache_after_an_own_write_takes_no_further_generation() -> None:
    world = settled()
    stale = world.children[CONFIG_MAP]
    world.edit_spec(batching={"maxQueueDepth": 7})
    assert known(world.settle().limits).generation == 2
    world.children[CONFIG_MAP] = stale
    assert known(world.settle().limits).generation == 2


@pytest.mark.parametrize(
    "text", ["", "not json", "{}", json.dumps({"generation": 1, "maxBatchSize": 0})]
)
def test_limits_corrupted_by_hand_are_repaired_by_the_next_generation(text: str) -> None:
    world = settled()
    world.states.clear()
    world.edit(*CONFIG_MAP, "data", {"limits.json": text})
    plan = world.settle()
    assert known(plan.limits).generation == 2
    assert published(world) == plan.limits


def test_a_limit_edited_by_hand_is_reverted_under_a_new_generation() -> None:
    world = settled()
    changed = published(world).model_copy(update={"max_queue_depth": 1})
    world.edit(*CONFIG_MAP, "data", {"limits.json": changed.model_dump_json(by_alias=True)})
    world.states.clear()
    plan = world.run()
    assert (known(plan.limits).generation, known(plan.limits).max_queue_depth) == (2, 2048)


def test_an_absurd_generation_of_another_writer_does_not_block_the_pool() -> None:
    world = settled()
    world.states.clear()
    huge = published(world).model_copy(update={"generation": 2**53 - 1})
    world.edit(*CONFIG_MAP, "data", {"limits.json": huge.model_dump_json(by_alias=True)})
    status = world.pool.status.model_copy(update={"batch": BatchStatus(generation=2**53 - 1)})
    world.pool = replace(world.pool, status=status)
    world.acknowledgements["uid-chat-1"] = Acknowledgement(2**53 - 1, 64)
    plan = world.run()
    assert 0 < known(plan.limits).generation < 2**53


def test_a_new_control_key_reaches_the_pods_without_a_new_generation() -> None:
    world = settled()
    data = dict(world.children[CONFIG_MAP].manifest["data"])
    world.edit(*CONFIG_MAP, "data", {**data, "control-keys.json": "{}"})
    plan = world.run()
    assert written(plan) == [("Apply", *CONFIG_MAP)]
    assert known(plan.limits).generation == 1


def test_a_later_pod_gets_the_same_generation() -> None:
    world = settled()
    world.pods = (*world.pods, pod("late", ip="10.0.0.9"))
    (push,) = world.run().pushes
    assert (push.pod_uid, push.ip, push.update.generation) == ("uid-late", "10.0.0.9", 1)
