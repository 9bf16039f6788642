"""The effective spec: built-in < policy default < spec, then bounds, and the notes on it."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api.pod_contract import Discipline
from penstock_api.types.batching import BatchingMode
from penstock_api.types.scaling import ScalingAlgorithm, ScalingMode
from penstock_operator.decide.spec.law_settings import Guards, LawSettings
from penstock_operator.decide.spec.live_fields import BUILT_IN, WEIGHT, live_fields, plausible
from penstock_operator.decide.spec.origins import ADJUSTED
from penstock_operator.decide.spec.prometheus import KeyOf, MetricsServer, metrics_server
from penstock_operator.observed import PolicyObject
from tests.unit.operator.decide.world import of, policy, pool, pool_spec


def test_a_pool_without_settings_gets_the_built_in_values() -> None:
    spec = of(pool())
    assert spec.law == LawSettings(
        objective_milliseconds=None,
        size_min=1,
        size_max=64,
        max_queue_delay_milliseconds=5,
        min_replicas=1,
        max_replicas=8,
        low_percent=50,
        high_percent=90,
        target_per_replica=4,
        stabilization_seconds=300,
        max_percent_per_minute=25,
    )
    assert (spec.scaling_mode, spec.batching_mode) == (ScalingMode.MANUAL, BatchingMode.AUTO)
    assert (spec.max_queue_depth, spec.discipline) == (2048, Discipline.PRIORITY)
    assert (spec.replicas, spec.bounded, spec.policies) == (1, (), ())
    assert spec.algorithm is ScalingAlgorithm.CAPACITY_AT_OBJECTIVE


def test_objectives_of_tokens_reach_the_law_of_a_pool_that_generates_text() -> None:
    claim = {
        "type": "PersistentVolumeClaim",
        "persistentVolumeClaim": {"claimName": "c", "path": "m"},
    }
    wanted = [
        {"metric": "TimeToFirstToken", "milliseconds": 800},
        {"metric": "TimePerOutputToken", "milliseconds": 50},
    ]
    spec = of(pool(model={"task": "TextGeneration", "source": claim}, objectives=wanted))
    assert spec.algorithm is ScalingAlgorithm.CAPACITY_AT_OBJECTIVE
    assert spec.law.objective_milliseconds is None
    assert spec.law.first_token_milliseconds == 800
    assert spec.law.output_token_milliseconds == 50
    band = {"scaling": {"algorithm": "UtilizationBand"}}
    assert of(pool(), policy("p", defaults=band)).algorithm is ScalingAlgorithm.UTILIZATION_BAND
    model = {"task": "TextGeneration", "source": claim}
    for spec in (
        of(pool(model=model), policy("p", defaults=band)),
        of(pool(model=model, scaling=band["scaling"])),
    ):
        assert spec.algorithm is ScalingAlgorithm.CAPACITY_AT_OBJECTIVE
        assert spec.origins["scaling.algorithm"] == ADJUSTED
        assert spec.notes == (
            "scaling.algorithm UtilizationBand does not apply to task TextGeneration: CapacityAtObjective does",
        )


def test_values_of_the_spec_or_a_policy_are_guards_and_built_in_values_are_not() -> None:
    assert of(pool()).law.guards == Guards()
    default = policy("p", defaults={"scaling": {"queueDepth": {"targetPerReplica": 7}}})
    mine = pool(scaling={"gpuUtilization": {"highPercent": 80}})
    assert of(mine, default).law.guards == Guards(high_percent=80, target_per_replica=7)
    explicit = pool(scaling={"scaleDown": {"stabilizationSeconds": 300}})
    assert of(explicit).law.guards.stabilization_seconds == 300, (
        "set explicitly to the built-in value"
    )


def test_replicas_without_a_mode_apply() -> None:
    assert of(pool(replicas=3)).replicas == 3


def test_a_policy_default_applies_where_the_spec_leaves_a_field_unset() -> None:
    default = policy("p", defaults={"scaling": {"maxReplicas": 20, "minReplicas": 2}})
    law = of(pool(scaling={"minReplicas": 4}), default).law
    assert (law.min_replicas, law.max_replicas) == (4, 20)


def test_nested_fields_are_merged_one_by_one() -> None:
    default = policy(
        "p", defaults={"scaling": {"gpuUtilization": {"lowPercent": 30, "highPercent": 70}}}
    )
    law = of(pool(scaling={"gpuUtilization": {"highPercent": 80}}), default).law
    assert (law.low_percent, law.high_percent) == (30, 80)


def test_defaults_apply_by_priority_for_each_field() -> None:
    low = policy(
        "low", priority=1, defaults={"batching": {"maxQueueDepth": 10, "size": {"max": 7}}}
    )
    high = policy("high", priority=2, defaults={"batching": {"maxQueueDepth": 20}})
    spec = of(pool(), low, high)
    assert (spec.max_queue_depth, spec.law.size_max) == (20, 7)


def test_an_unset_priority_is_zero() -> None:
    plain = policy("plain", defaults={"batching": {"maxQueueDepth": 10}})
    below = policy("below", priority=-1, defaults={"batching": {"maxQueueDepth": 20}})
    assert of(pool(), plain, below).max_queue_depth == 10


def test_equal_policies_that_agree_are_no_tie() -> None:
    same = {"defaults": {"batching": {"maxQueueDepth": 10}}}
    spec = of(pool(), policy("a", **same), policy("b", **same))
    assert (spec.max_queue_depth, spec.ties) == (10, ())


def tied() -> tuple[PolicyObject, PolicyObject]:
    return (
        policy("a", priority=5, defaults={"batching": {"maxQueueDepth": 10}}),
        policy("b", priority=5, defaults={"batching": {"maxQueueDepth": 20}}),
    )


def test_a_tie_applies_neither_value_and_keeps_the_previous_one() -> None:
    spec = of(pool(), *tied(), previous={"batching.maxQueueDepth": 15})
    assert spec.max_queue_depth == 15
    assert spec.policy_defaults == {"batching.maxQueueDepth": 15}
    (tie,) = spec.ties
    assert (tie.field, tie.policies, tie.priority) == ("batching.maxQueueDepth", ("a", "b"), 5)


def test_a_tie_without_a_previous_value_falls_back_to_lower_policies() -> None:
    below = policy("c", priority=1, defaults={"batching": {"maxQueueDepth": 30}})
    assert of(pool(), *tied(), below).max_queue_depth == 30
    assert of(pool(), *tied()).max_queue_depth == 2048


def test_a_higher_policy_settles_a_tie_below_it() -> None:
    above = policy("c", priority=9, defaults={"batching": {"maxQueueDepth": 30}})
    spec = of(pool(), *tied(), above)
    assert (spec.max_queue_depth, spec.ties) == (30, ())


def test_a_tie_on_a_field_of_the_spec_does_not_affect_the_pool() -> None:
    spec = of(pool(batching={"maxQueueDepth": 99}), *tied())
    assert spec.max_queue_depth == 99
    assert spec.ties
    assert spec.unresolved_ties == ()


def test_a_tie_on_one_field_leaves_the_policies_other_fields_in_force() -> None:
    first, second = tied()
    third = policy("d", priority=5, defaults={"batching": {"maxQueueDelayMilliseconds": 9}})
    assert of(pool(), first, second, third).law.max_queue_delay_milliseconds == 9


def test_an_objective_comes_from_a_policy_unless_the_pool_sets_none() -> None:
    default = policy(
        "p", defaults={"objectives": [{"metric": "RequestLatency", "milliseconds": 800}]}
    )
    assert of(pool(), default).law.objective_milliseconds == 800
    assert of(pool(objectives=[]), default).law.objective_milliseconds is None
    own = [{"metric": "RequestLatency", "milliseconds": 200}]
    assert of(pool(objectives=own), default).law.objective_milliseconds == 200


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ({}, {}, True),
        ({"matchLabels": {"tier": "prod"}}, {"tier": "prod", "x": "y"}, True),
        ({"matchLabels": {"tier": "prod"}}, {"tier": "test"}, False),
        ({"matchLabels": {"tier": "prod"}}, {}, False),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}]}, {"t": "b"}, True),
        ({"matchExpressions": [{"key": "t", "operator": "In", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["a"]}]}, {"t": "b"}, True),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["a"]}]}, {"t": "a"}, False),
        ({"matchExpressions": [{"key": "t", "operator": "NotIn", "values": ["a"]}]}, {}, True),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}]}, {"t": ""}, True),
        ({"matchExpressions": [{"key": "t", "operator": "Exists"}]}, {}, False),
        ({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}, {"t": "a"}, False),
        ({"matchExpressions": [{"key": "t", "operator": "DoesNotExist"}]}, {"u": "a"}, True),
        (
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "Exists"}]},
            {"a": "1"},
            False,
        ),
    ],
)  # fmt: skip
def test_selectors_follow_kubernetes_semantics(
    selector: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    selecting = policy("p", namespaceSelector=selector, defaults={"batching": {"maxQueueDepth": 3}})
    assert (of(pool(), selecting, labels=labels).max_queue_depth == 3) is selected


def test_a_pool_selector_reads_the_pools_own_labels() -> None:
    selecting = policy(
        "p", poolSelector={"matchLabels": {"a": "1"}}, defaults={"batching": {"maxQueueDepth": 3}}
    )
    assert of(replace(pool(), labels={"a": "1"}), selecting).max_queue_depth == 3
    assert of(replace(pool(), labels={"a": "2"}), selecting).policies == ()


def test_applied_policies_are_listed_with_their_generation() -> None:
    bounding = policy("p", bounds={"replicas": {"max": 4}})
    assert [(p.name, p.generation) for p in of(pool(), bounding).policies] == [("p", 1)]


@given(st.permutations([("a", 1, 10), ("b", 1, 20), ("c", 2, 30), ("d", 0, 40), ("e", 2, 30)]))
def test_the_order_in_which_policies_are_listed_never_matters(
    order: list[tuple[str, int, int]],
) -> None:
    listed = [
        policy(name, priority=rank, defaults={"batching": {"maxQueueDepth": value}})
        for name, rank, value in order
    ]
    assert of(pool(), *listed).max_queue_depth == 30


def test_every_built_in_value_is_valid_as_a_policy_default() -> None:
    defaults = {field: value for field, value in BUILT_IN.items() if field != WEIGHT}
    assert all(plausible(field, value) for field, value in defaults.items())
    assert not plausible(WEIGHT, 100)  # set by a pool, and only bounded by policies


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("scaling.minReplicas", 0),
        ("scaling.minReplicas", "many"),
        ("scaling.mode", "Auto"),
        ("batching.size.max", 10**9),
        ("objectives.RequestLatency", -1),
        ("objectives.Nonsense", 5),
        ("nonsense", 5),
        ("scaling..x", 5),
    ],
)
def test_a_stored_value_that_no_policy_could_set_is_rejected(field: str, value: Any) -> None:
    assert not plausible(field, value)


def test_modes_and_replicas_are_not_live_fields_of_a_policy() -> None:
    spec = pool_spec(replicas=3, scaling={"mode": "Auto"}, batching={"mode": "Fixed"})
    assert live_fields(spec) == {}


def metrics(name: str, url: str, priority: int = 0) -> PolicyObject:
    return policy(name, priority=priority, metrics={"prometheus": {"url": url}})


def test_the_prometheus_server_comes_from_the_chart_or_a_policy() -> None:
    assert metrics_server(pool(), {}, (), None) is None
    assert metrics_server(pool(), {}, (), MetricsServer("http://chart")) == MetricsServer(
        "http://chart"
    )
    first = metrics("a", "http://policy")
    assert metrics_server(pool(), {}, (first,), MetricsServer("http://chart")) == MetricsServer(
        "http://policy"
    )
    above = metrics("b", "http://above", priority=1)
    assert metrics_server(pool(), {}, (first, above), None) == MetricsServer("http://above")


def test_equal_policies_that_name_different_servers_keep_the_last() -> None:
    pair = (metrics("a", "http://a-server"), metrics("b", "http://b-server"))
    assert metrics_server(
        pool(), {}, pair, MetricsServer("http://chart"), MetricsServer("http://last")
    ) == MetricsServer("http://last")
    assert metrics_server(pool(), {}, pair, MetricsServer("http://chart")) == MetricsServer(
        "http://chart"
    )


def test_the_query_settings_come_from_one_policy_and_tie_on_any_difference() -> None:
    whole = {
        "url": "https://policy",
        "caConfigMapRef": {"name": "ca", "key": "ca.crt"},
        "credentialsSecretRef": {"name": "reader"},
        "headers": {"X-Scope-OrgID": "a", "X-Other": "b"},
    }
    first = policy("a", metrics={"prometheus": whole})
    chart = MetricsServer("https://chart", credentials="charts-own")
    server = MetricsServer(
        "https://policy",
        KeyOf("ca", "ca.crt"),
        "reader",
        (("X-Other", "b"), ("X-Scope-OrgID", "a")),
    )
    assert metrics_server(pool(), {}, (first,), chart) == server
    tenant = policy("b", metrics={"prometheus": {**whole, "headers": {"X-Scope-OrgID": "b"}}})
    assert metrics_server(pool(), {}, (first, tenant), chart) == chart
