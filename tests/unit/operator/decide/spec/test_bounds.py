"""Bounds of policies on requested values, and reconciliation of limits from different sources."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.observed import PolicyObject
from tests.unit.operator.decide.world import of, policy, pool


def bound(name: str = "cap", **bounds: int) -> PolicyObject:
    return policy(name, bounds={key: {"max": value} for key, value in bounds.items()})


def bounded(spec: EffectiveSpec) -> list[tuple[str, str, str, str]]:
    return [(bound.field, bound.asked, bound.granted, bound.policy) for bound in spec.bounded]


def test_a_bound_lowers_a_requested_value_and_reports_it() -> None:
    spec = of(pool(replicas=40), bound(replicas=32))
    assert spec.replicas == 32
    assert spec.replicas_bound == 32
    assert bounded(spec) == [("spec.replicas", "40", "32", "cap")]


def test_of_several_bounds_the_tightest_wins_whatever_its_priority() -> None:
    loose = policy("loose", priority=100, bounds={"batchSize": {"max": 50}})
    tight = policy("tight", priority=-100, bounds={"batchSize": {"max": 20}})
    spec = of(pool(), loose, tight)
    assert spec.law.size_max == 20
    assert bounded(spec) == [("spec.batching.size.max", "64", "20", "tight")]


def test_a_bound_lowers_both_ends_of_a_range() -> None:
    spec = of(
        pool(scaling={"mode": "Auto", "minReplicas": 6, "maxReplicas": 12}), bound(replicas=4)
    )
    assert (spec.law.min_replicas, spec.law.max_replicas) == (4, 4)
    assert [item[0] for item in bounded(spec)] == [
        "spec.scaling.minReplicas",
        "spec.scaling.maxReplicas",
    ]


def test_scaling_bounds_are_not_reported_on_a_pool_in_mode_manual() -> None:
    assert bounded(of(pool(), bound(replicas=4))) == []
    assert bounded(of(pool(scaling={"mode": "Auto"}), bound(replicas=4)))


def test_a_bound_lowers_a_policys_own_default() -> None:
    spec = of(
        pool(), policy("p", defaults={"batching": {"maxQueueDepth": 9000}}), bound(queueDepth=100)
    )
    assert spec.max_queue_depth == 100


@pytest.mark.parametrize(
    ("spec", "default", "expected"),
    [
        ({"minReplicas": 10}, {}, (10, 10)),  # a built-in maximum changes
        ({"minReplicas": 10}, {"maxReplicas": 5}, (10, 10)),  # the spec overrides a default
        ({"maxReplicas": 2}, {"minReplicas": 4}, (2, 2)),
        ({}, {"minReplicas": 12}, (12, 12)),
        ({"minReplicas": 3}, {"maxReplicas": 5}, (3, 5)),
    ],
)
def test_limits_from_different_sources_are_reconciled(
    spec: dict[str, Any], default: dict[str, Any], expected: Any
) -> None:
    result = of(pool(scaling={"mode": "Auto", **spec}), policy("p", defaults={"scaling": default}))
    assert (result.law.min_replicas, result.law.max_replicas) == expected


def test_of_two_policies_that_contradict_each_other_the_cheaper_applies() -> None:
    low = policy("a", priority=1, defaults={"scaling": {"minReplicas": 9}})
    high = policy("b", priority=2, defaults={"scaling": {"maxReplicas": 5}})
    spec = of(pool(), low, high)
    assert (spec.law.min_replicas, spec.law.max_replicas) == (5, 5)


def test_an_overridden_default_is_reported_and_a_built_in_value_is_not() -> None:
    default = policy("p", defaults={"scaling": {"maxReplicas": 5}})
    (note,) = of(pool(scaling={"minReplicas": 10}), default).notes
    assert "scaling.maxReplicas of the policy default" in note
    assert "10 applies" in note
    assert of(pool(scaling={"minReplicas": 10})).notes == ()


@pytest.mark.parametrize(
    ("band", "expected"),
    [
        ({"lowPercent": 95}, (95, 96)),
        ({"lowPercent": 100}, (99, 100)),
        ({"highPercent": 40}, (39, 40)),
        ({"highPercent": 1}, (0, 1)),
    ],
)
def test_a_band_always_has_room_between_its_ends(band: dict[str, int], expected: Any) -> None:
    law = of(pool(scaling={"gpuUtilization": band})).law
    assert (law.low_percent, law.high_percent) == expected


numbers = st.integers(1, 1000)
ranges = st.fixed_dictionaries({}, optional={"min": numbers, "max": numbers})


def valid(limits: dict[str, int]) -> bool:
    return limits.get("min", 0) <= limits.get("max", 10_000)


def scaling(limits: dict[str, int]) -> dict[str, int]:
    names = {"min": "minReplicas", "max": "maxReplicas"}
    return {names[key]: value for key, value in limits.items()}


@given(
    spec=ranges.filter(valid),
    default=ranges.filter(valid),
    limit=st.none() | numbers,
)
def test_any_request_leads_to_a_valid_range_within_the_bound(
    spec: dict[str, Any], default: dict[str, Any], limit: int | None
) -> None:
    policies = [policy("p", defaults={"scaling": scaling(default), "batching": {"size": default}})]
    if limit is not None:
        policies.append(bound(replicas=limit, batchSize=limit))
    result = of(pool(scaling={"mode": "Auto", **scaling(spec)}, batching={"size": spec}), *policies)
    law = result.law
    assert 1 <= law.min_replicas <= law.max_replicas <= (limit or 1000)
    assert 1 <= law.size_min <= law.size_max <= (limit or 1000)
    for end, got in (("min", law.min_replicas), ("max", law.max_replicas)):
        if end in spec:
            assert got == min(spec[end], limit or 1000)
