"""The origin of each live field in the status: which layer determined the value in force."""

from typing import Any

import pytest

from penstock_operator.decide.spec.effective import EffectiveSpec, effective, in_force
from penstock_operator.decide.spec.live_fields import BUILT_IN, MODES
from penstock_operator.decide.spec.schedules import Opening
from penstock_operator.observed import PolicyObject
from tests.unit.operator.decide.world import World, known, of, policy, pool

Shown = tuple[str, str]


def shown(spec: EffectiveSpec) -> dict[str, Shown]:
    return {item.field: (item.value, item.origin) for item in spec.reported}


def test_every_live_field_and_all_modes_are_reported_once_and_in_order() -> None:
    paths = [item.field for item in of(pool()).reported]
    assert paths == sorted({*BUILT_IN, *MODES, "replicas", "routing.mode", "service.type"})


@pytest.mark.parametrize(
    ("spec", "policies", "field", "value"),
    [
        ({}, (), "scaling.maxReplicas", ("8", "BuiltIn")),
        ({}, (), "batching.mode", ("Auto", "BuiltIn")),
        ({}, (), "replicas", ("1", "Spec")),
        ({"scaling": {"mode": "Hold"}}, (), "scaling.mode", ("Hold", "Spec")),
        ({"weight": 7}, (), "weight", ("7", "Spec")),
        ({}, (), "routing.mode", ("Service", "BuiltIn")),
        ({"routing": {"mode": "Gateway"}}, (), "routing.mode", ("Gateway", "Spec")),
        ({}, (), "service.type", ("ClusterIP", "BuiltIn")),
        ({"service": {"type": "NodePort"}}, (), "service.type", ("NodePort", "Spec")),
        (
            {"service": {"type": "NodePort"}},
            (policy("prod", bounds={"service": {"allowedTypes": ["LoadBalancer"]}}),),
            "service.type",
            ("ClusterIP", "Bound prod"),
        ),
        (
            {},
            (policy("prod", defaults={"batching": {"maxQueueDepth": 9}}),),
            "batching.maxQueueDepth",
            ("9", "PolicyDefault prod"),
        ),
        (
            {"weight": 700},
            (policy("prod", bounds={"weight": {"max": 300}}),),
            "weight",
            ("300", "Bound prod"),
        ),
        (
            {},
            (policy("cap", bounds={"replicas": {"max": 3}}),),
            "scaling.maxReplicas",
            ("3", "Bound cap"),
        ),
        ({"scaling": {"minReplicas": 20}}, (), "scaling.maxReplicas", ("20", "Adjusted")),
        (
            {"objectives": [{"metric": "RequestLatency", "milliseconds": 500, "percent": 95}]},
            (),
            "objectives.RequestLatency",
            ("500 ms for 95 %", "Spec"),
        ),
    ],
)
def test_the_layer_that_determined_a_value_is_its_origin(
    spec: dict[str, Any], policies: tuple[PolicyObject, ...], field: str, value: Shown
) -> None:
    assert shown(of(pool(**spec), *policies))[field] == value


def test_a_value_kept_while_policies_conflict_says_so() -> None:
    tied = [policy(name, defaults={"weight": 1, "batching": {"maxQueueDepth": depth}})
            for name, depth in (("a", 5), ("b", 6))]  # fmt: skip
    previous = {"batching.maxQueueDepth": 4}
    assert shown(of(pool(), *tied, previous=previous))["batching.maxQueueDepth"] == ("4", "Kept")


def test_an_open_schedule_is_the_origin_of_the_minimum_that_it_raises() -> None:
    prod = policy("prod", schedules=[])
    opening = {"prod": Opening("prod", "morning", 4, until=2e9)}
    given = shown(effective(pool(), {}, [prod], open_now=opening))
    assert given["scaling.minReplicas"] == ("4", "Schedule prod/morning")
    higher = pool(scaling={"minReplicas": 5})
    given = shown(effective(higher, {}, [prod], open_now=opening))
    assert given["scaling.minReplicas"] == ("5", "Spec")


def test_a_rolled_back_value_is_told_from_one_that_stays() -> None:
    requested = of(pool(weight=5, batching={"size": {"max": 2}, "maxQueueDepth": 9}))
    restored = {**requested.fields, "batching.size.max": 16}
    given = shown(in_force(requested, restored, frozenset()))
    assert given["batching.size.max"] == ("16", "Rollback")
    assert given["batching.maxQueueDepth"] == ("9", "Spec")
    assert given["scaling.mode"] == ("Manual", "BuiltIn")


def test_the_status_has_them_and_is_stable() -> None:
    world = World(pool=pool(weight=5))
    first, second = world.settle().status, world.settle().status
    assert known(first.effective) == known(second.effective)
    assert ("weight", "5", "Spec") in {
        (item.field, item.value, item.origin) for item in known(first.effective)
    }
