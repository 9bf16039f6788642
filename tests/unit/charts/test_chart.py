"""The charts as a whole: CRDs, options, samples, notes, lint and package."""

from pathlib import Path

import pytest
import yaml

from penstock_api import names
from penstock_api.base import ApiModel
from penstock_api.types.policy import PolicySpec
from penstock_api.types.pool import PoolSpec
from tests.support.kube.target import Target
from tests.unit.charts.rendered import CHART, CRDS_CHART, ROOT, Object, only, render

CRD = "CustomResourceDefinition"


def crds(objects: list[Object]) -> list[Object]:
    return [manifest for manifest in objects if manifest["kind"] == CRD]


@pytest.mark.parametrize("chart", [CHART, CRDS_CHART], ids=lambda path: path.name)
def test_the_crds_are_installed_and_kept(chart: Path) -> None:
    installed = crds(render(chart))
    assert {manifest["spec"]["names"]["kind"] for manifest in installed} == {
        names.POOL_KIND,
        names.POLICY_KIND,
    }
    for crd in installed:
        assert crd["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    generated = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("*.yaml")]
    assert sorted(installed, key=str) == sorted(generated, key=str)


def test_the_crds_can_be_left_to_their_own_chart() -> None:
    assert crds(render(crds__install="false")) == []


def test_optional_manifests_are_off_by_default() -> None:
    kinds = {manifest["kind"] for manifest in render()}
    assert not kinds & {"ServiceMonitor", "PodMonitor", "NetworkPolicy"}


def test_a_pod_monitor_scrapes_the_pools_cluster_port() -> None:
    spec = only(render(poolMonitor__enabled="true"), "PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint["port"] == names.CLUSTER_PORT_NAME
    assert endpoint["path"] == names.PATH_METRICS
    assert endpoint["interval"] == "5s"
    assert spec["selector"]["matchExpressions"] == [
        {"key": names.LABEL_POOL_UID, "operator": "Exists"}
    ]


def test_a_service_monitor_finds_the_operators_service() -> None:
    objects = render(
        metrics__serviceMonitor__enabled="true", metrics__serviceMonitor__labels__a="b"
    )
    monitor, service = only(objects, "ServiceMonitor"), only(objects, "Service")
    selector = monitor["spec"]["selector"]["matchLabels"]
    assert selector.items() <= service["metadata"]["labels"].items()
    assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert monitor["metadata"]["labels"]["a"] == "b"


def rules_of(kind: str, section: str) -> Object:
    values = {
        f"{section}.enabled": "true",
        f"{section}.relabelings[0].targetLabel": "node",
        f"{section}.metricRelabelings[0].action": "drop",
    }
    spec = only(render(CHART, **values), kind)["spec"]
    (endpoint,) = spec.get("endpoints") or spec["podMetricsEndpoints"]
    relabeled: Object = endpoint
    return relabeled


def test_monitors_relabel_as_the_values_say_after_the_charts_own_rules() -> None:
    operators = rules_of("ServiceMonitor", "metrics.serviceMonitor")
    assert operators["relabelings"] == [{"targetLabel": "node"}]
    pools = rules_of("PodMonitor", "poolMonitor")
    assert [rule["targetLabel"] for rule in pools["relabelings"]] == ["pool", "__scheme__", "node"]
    for endpoint in (operators, pools):
        assert endpoint["metricRelabelings"] == [{"action": "drop"}]


def test_the_metadata_for_artifact_hub_names_the_crds_and_valid_examples() -> None:
    notes = yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]
    listed = {
        (crd["kind"], crd["version"], crd["name"])
        for crd in yaml.safe_load(notes["artifacthub.io/crds"])
    }
    assert listed == {
        (names.POOL_KIND, names.VERSION, f"{names.POOL_PLURAL}.{names.GROUP}"),
        (names.POLICY_KIND, names.VERSION, f"{names.POLICY_PLURAL}.{names.GROUP}"),
    }
    types: dict[str, type[ApiModel]] = {names.POOL_KIND: PoolSpec, names.POLICY_KIND: PolicySpec}
    examples = yaml.safe_load(notes["artifacthub.io/crdsExamples"])
    assert {example["kind"] for example in examples} == set(types)
    for example in examples:
        types[example["kind"]].model_validate(example["spec"])


def test_a_network_policy_opens_only_the_operators_port() -> None:
    objects = render(networkPolicy__enabled="true")
    spec = only(objects, "NetworkPolicy")["spec"]
    labels = only(objects, "Deployment")["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["ingress"] == [
        {"ports": [{"protocol": "TCP", "port": 8080}], "from": [{"namespaceSelector": {}}]}
    ]


@pytest.mark.parametrize("kind", ["pool", "policy"])
def test_the_samples_validate_against_the_types(kind: str) -> None:
    manifest = yaml.safe_load((CHART / "samples" / f"{kind}.yaml").read_text())
    models: dict[str, type[ApiModel]] = {"pool": PoolSpec, "policy": PolicySpec}
    typed = models[kind].model_validate(manifest["spec"])
    dumped = typed.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert dumped == {**({"replicas": 1} if kind == "pool" else {}), **manifest["spec"]}


@pytest.mark.parametrize("chart", [CHART, CRDS_CHART], ids=lambda path: path.name)
def test_helm_lint_reports_no_failure(chart: Path) -> None:
    assert "0 chart(s) failed" in Target.from_env().helm("lint", "--strict", chart)


def test_a_packaged_chart_holds_its_crds(tmp_path: Path) -> None:
    Target.from_env().helm("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("penstock-*.tgz")
    assert len(crds(render_package(package))) == 2


def render_package(package: Path) -> list[Object]:
    sets = {"image__repository": "x/y", "runtimeImage__repository": "x/z"}
    return render(package, **sets)


def test_the_versions_are_the_distributions() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    for chart in (CHART, CRDS_CHART):
        metadata = yaml.safe_load((chart / "Chart.yaml").read_text())
        assert f'version = "{metadata["appVersion"]}"' in project


def test_a_pod_monitor_reads_the_gateways_of_an_installation_that_has_them() -> None:
    repository = "registry.example/gateway"
    rendered = render(poolMonitor__enabled="true", gateway__image__repository=repository)
    spec = only(rendered, "PodMonitor")["spec"]
    assert [endpoint["port"] for endpoint in spec["podMetricsEndpoints"]] == ["control", "status"]


def test_a_service_monitor_has_a_service_to_select() -> None:
    values = {"metrics__service__enabled": "false"}
    monitored = render(CHART, **values, metrics__serviceMonitor__enabled="true")
    assert only(monitored, "Service")
    assert "Service" not in {each["kind"] for each in render(CHART, **values)}


def test_a_pod_monitor_goes_by_the_scheme_that_a_pod_says() -> None:
    spec = only(render(poolMonitor__enabled="true"), "PodMonitor")["spec"]
    (endpoint,) = spec["podMetricsEndpoints"]
    rules = {rule["targetLabel"]: rule for rule in endpoint["relabelings"]}
    label = "__meta_kubernetes_pod_annotation_" + names.ANNOTATION_SCHEME.replace(".", "_").replace(
        "/", "_"
    )
    assert rules["__scheme__"] == {
        "sourceLabels": [label],
        "regex": "(https)",
        "targetLabel": "__scheme__",
    }
    assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}
