"""Names, namespace, labels and annotations of the chart's objects."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.charts.rendered import (
    CHART,
    IMAGES,
    Object,
    only,
    render,
    render_tests,
    template,
)

CRD = "CustomResourceDefinition"
EVERYTHING = {
    "replicas": "2", "networkPolicy.enabled": "true", "poolMonitor.enabled": "true",
    "metrics.serviceMonitor.enabled": "true", "metrics.prometheusRule.enabled": "true",
    "metrics.dashboard.enabled": "true", "poolDefaults.scaling.minReplicas": "2",
}  # fmt: skip
"""Values with which the chart renders an object of every kind."""


def own(**values: str) -> list[Object]:
    """Return all objects but the CRDs."""
    objects = render(CHART, **EVERYTHING, **values) + render_tests(**values)
    return [manifest for manifest in objects if manifest["kind"] != CRD]


def prefixed(manifest: Object, prefix: str) -> bool:
    name: str = manifest["metadata"]["name"]
    return name.startswith(f"{prefix}-") or manifest["kind"] == "Lease"


@pytest.mark.parametrize(
    ("values", "prefix"),
    [
        ({}, "penstock"),
        ({"nameOverride": "stock"}, "penstock"),  # the release's name contains it
        ({"nameOverride": "gate"}, "penstock-gate"),
        ({"fullnameOverride": "acme", "nameOverride": "gate"}, "acme"),
    ],
)
def test_all_names_begin_with_the_same_prefix(values: dict[str, str], prefix: str) -> None:
    assert [manifest for manifest in own(**values) if not prefixed(manifest, prefix)] == []


def test_the_label_of_the_name_is_the_charts_or_its_override() -> None:
    key = "app.kubernetes.io/name"
    assert {manifest["metadata"]["labels"][key] for manifest in own()} == {"penstock"}
    assert {manifest["metadata"]["labels"][key] for manifest in own(nameOverride="x")} == {"x"}


def test_all_objects_of_a_namespace_are_in_the_overriding_one() -> None:
    objects = own(namespaceOverride="acme")
    homes = {
        manifest["metadata"]["namespace"]
        for manifest in objects
        if "namespace" in manifest["metadata"]
    }
    subjects = {
        subject["namespace"] for manifest in objects for subject in manifest.get("subjects", ())
    }
    assert (homes, subjects) == ({"acme"}, {"acme"})


def test_common_labels_and_annotations_are_on_every_object_and_the_objects_own_win() -> None:
    objects = own(
        commonLabels__team="a",
        commonAnnotations__note="b",
        metrics__dashboard__labels__team="dashboards",
        serviceAccount__annotations__note="own",
        podLabels__team="pods",
    )
    teams = {manifest["kind"]: manifest["metadata"]["labels"]["team"] for manifest in objects}
    notes = {
        (manifest["kind"], manifest["metadata"]["annotations"]["note"]) for manifest in objects
    }
    assert {kind for kind, team in teams.items() if team != "a"} == {"ConfigMap"}
    assert {kind for kind, note in notes if note != "b"} == {"ServiceAccount"}
    template = only(objects, "Deployment")["spec"]["template"]["metadata"]
    assert template["labels"]["team"] == "pods"
    assert "annotations" not in template


def test_no_check_pod_is_selected_as_an_operator() -> None:
    selector = only(render(), "Service")["spec"]["selector"]
    check = only(own(), "Pod")
    assert not selector.items() <= check["metadata"]["labels"].items()


def named(section: Any) -> Iterator[Any]:
    """Yield every reference and label value."""
    if isinstance(section, list):
        for each in section:
            yield from named(each)
    if isinstance(section, dict):
        for key, value in section.items():
            scalar = not isinstance(value, dict | list)
            if scalar and (key == "namespace" or key.endswith(("Name", "/name", "/instance"))):
                yield value
            yield from named(value)


def test_names_that_read_as_numbers_or_booleans_stay_strings(tmp_path: Path) -> None:
    values = {
        "scope": "Namespaces", "namespaces": ["123", "no"], "namespaceOverride": "456", "nameOverride": "1e3",
        "priorityClassName": "100", "serviceAccount": {"create": False, "name": "7"}, "tls": {"secretName": "8"},
        "batches": {"enabled": True, "namespaces": ["no"], "image": {"repository": "a/b"}, "apiKeysSecret": {"name": "9"}, "volume": {"storageClassName": "1"}},
        "image": {"repository": IMAGES["image.repository"]}, "runtimeImage": {"repository": IMAGES["runtimeImage.repository"]},
    }  # fmt: skip
    (tmp_path / "values.json").write_text(json.dumps(values))
    names = set(named(template(CHART, "--values", tmp_path / "values.json")))
    assert {"123", "no", "456", "1e3", "100", "7", "8", "9", "1"} <= names
    assert not [name for name in names if not isinstance(name, str)]


def test_the_defaults_of_more_namespaces_than_a_selector_has_values_are_in_several_policies() -> (
    None
):
    values = {f"namespaces[{n}]": f"team-{n}" for n in range(65)}
    rendered = render(CHART, scope="Namespaces", poolDefaults__scaling__minReplicas="2", **values)
    policies = [each for each in rendered if each["kind"] == "InferencePolicy"]
    names = [each["metadata"]["name"] for each in policies]
    assert names == ["penstock-penstock-system-defaults", "penstock-penstock-system-defaults-2"]
    selected = [
        each["spec"]["namespaceSelector"]["matchExpressions"][0]["values"] for each in policies
    ]
    assert [len(each) for each in selected] == [64, 1]


@pytest.mark.parametrize(
    "name",
    ["podSecurityContext", "prometheus.policySecrets", "poolNetworkPolicy.scrapers"],
)
def test_a_default_may_be_removed(name: str) -> None:
    assert render(CHART, **{name: "null", "poolNetworkPolicy.enabled": "true"})
