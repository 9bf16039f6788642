"""Comparison of live objects with desired manifests, after the API server's normalization."""

from typing import Any

import pytest

from penstock_operator.decide.manifests.diff import covers, first_difference
from penstock_operator.decide.manifests.writes import replaced_field


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1, "b": 2}, {"a": 1}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}),
        ({}, {"a": ""}),  # empty values are not stored
        ({}, {"a": {}, "b": []}),
        ({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1000m"}}),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}),
        ({"requests": {"cpu": "500m"}}, {"requests": {"cpu": "0.5"}}),
        ({"limits": {"nvidia.com/gpu": "1"}}, {"limits": {"nvidia.com/gpu": 1}}),
        ({"sizeLimit": "1k"}, {"sizeLimit": "1000"}),
        ({"limits": {"memory": "1G"}}, {"limits": {"memory": "1e9"}}),
        ({"env": [{"name": "X"}, {"name": "A", "value": "1"}]}, {"env": [{"name": "A"}]}),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}, {"name": "v", "mountPath": "/b"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
        ),
        ({"tolerations": [{"key": "a", "effect": "x"}]}, {"tolerations": [{"key": "a"}]}),
    ],
)
def test_a_live_object_with_additional_values_matches(live: Any, desired: Any) -> None:
    assert covers(live, desired)


@pytest.mark.parametrize(
    ("live", "desired"),
    [
        ({"a": 1}, {"a": 2}),
        ({}, {"a": 1}),
        ({"a": True}, {"a": False}),
        ({}, {"a": False}),
        ({}, {"a": 0}),
        ({"a": "1"}, {"a": 1}),
        ({"limits": {"cpu": "2"}}, {"limits": {"cpu": "1"}}),
        ({"limits": {"cpu": "many"}}, {"limits": {"cpu": "1"}}),
        ({"env": [{"name": "A", "value": "2"}]}, {"env": [{"name": "A", "value": "1"}]}),
        ({"env": []}, {"env": [{"name": "A"}]}),
        ({"drop": ["ALL", "X"]}, {"drop": ["ALL"]}),
        ({"tolerations": [{"key": "a"}, {"key": "b"}]}, {"tolerations": [{"key": "a"}]}),
        ({"selector": {"uid": "1", "app": "x"}}, {"selector": {"uid": "1"}}),  # selects fewer pods
        ({"a": None}, {"a": {"b": 1}}),
        ({"a": "text"}, {"a": {"b": 1}}),
        ({"a": "text"}, {"a": ["b"]}),
        (
            {"volumeMounts": [{"name": "v", "mountPath": "/a"}]},
            {"volumeMounts": [{"name": "v", "mountPath": "/b"}]},
        ),
    ],
)
def test_a_live_object_without_a_desired_value_differs(live: Any, desired: Any) -> None:
    assert not covers(live, desired)
    assert first_difference(live, desired)


@pytest.mark.parametrize(
    ("live", "path"),
    [
        ({"spec": {"env": [{"name": "A", "value": "1"}], "limits": {"memory": "1Gi"}}}, ""),
        ({"spec": {"env": [{"name": "A", "value": "2"}]}}, "spec.env.A.value"),
        ({"spec": {"env": []}}, "spec.env.A"),
        ({"spec": {"env": [{"name": "A", "value": "1"}], "limits": {"memory": "2Gi"}}}, "spec.limits.memory"),
        ({}, "spec"),
    ],
)  # fmt: skip
def test_the_path_of_a_difference_has_the_names_of_items(live: Any, path: str) -> None:
    desired = {"spec": {"env": [{"name": "A", "value": "1"}], "limits": {"memory": "1024Mi"}}}
    assert first_difference(live, desired) == path


@pytest.mark.parametrize(
    ("stored", "path"),
    [
        ({"metadata": {"labels": {"a": "1"}, "uid": "7"}, "spec": {"replicas": 1}, "status": {}}, ""),
        ({"metadata": {"labels": {"a": "2"}}, "spec": {"replicas": 1}}, "metadata.labels.a"),
        ({"metadata": {"labels": {"a": "1", "b": "1"}}, "spec": {"replicas": 1}}, "metadata.labels.b"),
        ({"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1, "weight": 5}}, "spec.weight"),
    ],
)  # fmt: skip
def test_additional_values_of_a_replaced_object_are_differences(stored: Any, path: str) -> None:
    written = {"metadata": {"labels": {"a": "1"}}, "spec": {"replicas": 1}}
    assert replaced_field(stored, written) == path
