"""Names, namespace, labels and annotations of the chart's objects."""

import pytest

from tests.unit.charts.rendered import CHART, Object, only, render, render_tests

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
