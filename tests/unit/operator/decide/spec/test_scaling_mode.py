"""The meaning of an unset `scaling.mode`: Auto by target for new pools, Manual for pools of earlier releases."""

from dataclasses import replace
from typing import Any

import pytest

from penstock_api.types.scaling import ScalingMode
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.spec.scaling_mode import STATUS_FIELD, has_target, scaling_mode
from penstock_operator.observed import PoolObject
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew
from tests.unit.operator.decide.world import World, child, policy, pool, pool_spec, settled

OBJECTIVES = [{"metric": "RequestLatency", "milliseconds": 500}]
TARGETS: list[dict[str, Any]] = [{"objectives": OBJECTIVES}, {"scaling": {"maxReplicas": 4}}]
NONE: list[dict[str, Any]] = [{}, {"objectives": []}, {"scaling": {"minReplicas": 2}}]


def with_meaning(subject: PoolObject, meaning: str | None) -> PoolObject:
    return replace(subject, status=PoolStatus(unset_scaling_mode=meaning))


@pytest.mark.parametrize("spec", TARGETS, ids=["objective", "maximum"])
def test_a_target_of_the_pool_itself_means_auto(spec: dict[str, Any]) -> None:
    assert has_target(pool_spec(**spec))
    assert scaling_mode(with_meaning(pool(**spec), "ByTarget")) is ScalingMode.AUTO


@pytest.mark.parametrize("spec", NONE, ids=["bare", "no objectives", "minimum"])
def test_without_a_target_the_mode_is_manual(spec: dict[str, Any]) -> None:
    assert scaling_mode(with_meaning(pool(**spec), "ByTarget")) is ScalingMode.MANUAL


@pytest.mark.parametrize("meaning", ["Manual", None, "ByWordsOfANewerRelease"])
def test_any_other_meaning_is_manual(meaning: str | None) -> None:
    subject = pool(objectives=OBJECTIVES)
    assert scaling_mode(with_meaning(subject, meaning)) is ScalingMode.MANUAL


@pytest.mark.parametrize("mode", list(ScalingMode))
def test_a_set_mode_applies_whatever_the_meaning(mode: ScalingMode) -> None:
    subject = pool(objectives=OBJECTIVES, scaling={"mode": mode.value})
    for meaning in ("ByTarget", "Manual", None):
        assert scaling_mode(with_meaning(subject, meaning)) is mode


def modes(world: World) -> tuple[str | None, str | None]:
    """Return (mode in force, meaning of an unset one) of the status after a pass."""
    status = world.settle().status
    return status.scaling_mode, status.unset_scaling_mode


def test_a_new_pool_with_an_objective_scales_by_itself_from_its_first_pass_on() -> None:
    world = World(pool=pool(objectives=OBJECTIVES))
    assert modes(world) == modes(world) == ("Auto", "ByTarget")


def test_the_mode_of_a_new_pool_follows_its_spec() -> None:
    world = World(pool=pool())
    assert modes(world) == ("Manual", "ByTarget")
    world.edit_spec(objectives=OBJECTIVES)
    assert modes(world) == ("Auto", "ByTarget")
    world.edit_spec(objectives=[])
    assert modes(world) == ("Manual", "ByTarget")


def test_a_policys_objective_switches_no_mode() -> None:
    prod = policy("prod", defaults={"objectives": OBJECTIVES, "scaling": {"maxReplicas": 4}})
    assert modes(World(pool=pool(), policies=(prod,))) == ("Manual", "ByTarget")


def test_a_pool_with_a_status_of_an_earlier_release_stays_manual() -> None:
    earlier = replace(pool(objectives=OBJECTIVES), status=PoolStatus(selector="pool-uid=x"))
    world = World(pool=earlier)
    assert modes(world) == modes(world) == ("Manual", "Manual")


def test_a_pool_whose_status_was_lost_is_known_by_its_children() -> None:
    served = settled(pool=pool(objectives=OBJECTIVES))
    lost = World(pool=pool(objectives=OBJECTIVES), children=served.children)
    assert lost.run().status.unset_scaling_mode == "Manual"
    lost = World(pool=pool(objectives=OBJECTIVES), revisions=served.revisions)
    assert lost.run().status.unset_scaling_mode == "Manual"


def test_another_owners_object_under_a_childs_name_makes_no_earlier_pool() -> None:
    foreign = child("Deployment", "chat-penstock", owner="uid-other")
    world = World(
        pool=pool(objectives=OBJECTIVES), children={("Deployment", "chat-penstock"): foreign}
    )
    assert world.run().status.unset_scaling_mode == "ByTarget"


def test_the_meaning_outlives_a_restart_of_the_operator() -> None:
    world = World(pool=pool(objectives=OBJECTIVES))
    world.settle()
    world.states.clear()
    assert modes(world) == ("Auto", "ByTarget")


def test_a_crd_that_cannot_store_the_meaning_leaves_every_unset_mode_manual() -> None:
    lacking = SchemaSkew(lacking=frozenset({STATUS_FIELD}))
    world = World(pool=pool(objectives=OBJECTIVES), pool_schema=lacking)
    assert world.run().status.scaling_mode == "Manual"
    world.pool_schema = AS_BUILT
    assert modes(world) == ("Auto", "ByTarget"), "nothing was written yet"
