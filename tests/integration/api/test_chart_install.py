"""The chart with every value changed, an upgrade from its first version, and install.yaml, on the real API server."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube.api import Api, Object, load_all, path_of
from tests.support.kube.install import CHART, ROOT
from tests.support.kube.monitoring import monitoring_kinds
from tests.support.kube.namespaces import named_namespace
from tests.support.kube.target import Target

pytestmark = pytest.mark.integration

CHANGED = ROOT / "tests" / "unit" / "charts" / "changed.yaml"
EARLIER = Path(__file__).with_name("earlier") / "0.1.0"
POLICIES = "/apis/penstock.dev/v1alpha1/inferencepolicies"
CRD = "CustomResourceDefinition"


@pytest.fixture(scope="module", autouse=True)
def monitoring(api: Api) -> Iterator[None]:
    """The kinds of the Prometheus Operator."""
    with monitoring_kinds(api):
        yield


@pytest.fixture(scope="module")
def home(api: Api) -> Iterator[str]:
    """The namespace in the changed values."""
    name: str = yaml.safe_load(CHANGED.read_text())["namespaceOverride"]
    with named_namespace(api, name, "api"):
        yield name


def exist(target: Target, manifest: str) -> list[str]:
    """Return the names of the manifest's objects, all of which the API server has."""
    return target.kubectl("get", "--output", "name", "--filename", "-", stdin=manifest).splitlines()


def test_a_release_with_every_value_changed_is_installed_and_uninstalled(
    target: Target, api: Api, namespace: str, home: str
) -> None:
    release = ("changed", "--namespace", namespace)
    target.helm("install", *release, CHART, "--values", CHANGED)
    try:
        manifest = target.helm("get", "manifest", *release)
        assert len(exist(target, manifest)) == len(load_all(manifest))
        assert {each["metadata"].get("namespace", home) for each in load_all(manifest)} == {home}
        policy = api.get(f"{POLICIES}/acme-{home}-defaults")
        assert policy is not None
        assert policy["spec"]["priority"] == -1_000_000
    finally:
        target.helm("uninstall", *release, "--wait")
    assert api.get(f"{POLICIES}/acme-{home}-defaults") is None


@pytest.mark.parametrize(
    "values",
    [("--values", CHANGED), ("--set", "image.repository=x/y,runtimeImage.repository=x/z")],
    ids=["changed", "defaults"],
)
def test_the_api_server_accepts_the_rendered_chart_under_strict_validation(
    target: Target, home: str, values: tuple[str | Path, ...]
) -> None:
    version = target.api().request("GET", "/version")["gitVersion"]
    options = ("--namespace", home, "--kube-version", version)
    text = target.helm("template", "try", CHART, "--skip-tests", *options, *values)
    output = target.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict",
        "--filename", "-", stdin=text,
    )  # fmt: skip
    assert len(output.splitlines()) == len(load_all(text))


def test_removing_the_defaults_of_pools_removes_their_policy(
    target: Target, api: Api, namespace: str
) -> None:
    settings = (
        "replicas=0,image.repository=x/operator,runtimeImage.repository=x/runtime,crds.install=false,"
        f"scope=Namespaces,namespaces={{{namespace}}},rbac.people=false,fullnameOverride=defaults"
    )
    release = ("defaults", CHART, "--namespace", namespace, "--set", settings)
    path = f"{POLICIES}/defaults-{namespace}-defaults"
    target.helm("install", *release, "--set", "poolDefaults.scaling.minReplicas=2")
    try:
        policy = api.get(path)
        assert policy is not None
        target.helm("upgrade", *release, "--set", "poolDefaults.scaling.minReplicas=3")
        changed = api.get(path)
        assert changed is not None
        assert changed["metadata"]["uid"] == policy["metadata"]["uid"]
        assert changed["spec"]["defaults"] == {"scaling": {"minReplicas": 3}}
        target.helm("upgrade", *release)
        assert api.get(path) is None
    finally:
        target.helm("uninstall", "defaults", "--namespace", namespace)


def test_a_release_of_the_first_chart_is_upgraded_with_every_value_it_had(
    target: Target, api: Api, namespace: str
) -> None:
    release = ("first", "--namespace", namespace)
    values = ("--values", EARLIER / "values.yaml", "--set", f"namespaces={{{namespace}}}")
    target.helm("install", *release, EARLIER / "penstock-0.1.0.tgz", *values)
    try:
        path = f"/apis/apps/v1/namespaces/{namespace}/deployments/first-penstock-operator"
        before = api.get(path)
        target.helm("upgrade", *release, CHART, "--reset-then-reuse-values")
        after = api.get(path)
        assert before is not None
        assert after is not None
        assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1
        kept = yaml.safe_load(target.helm("get", "values", *release, "--output", "yaml"))
        assert kept["defaultRuntimeImage"] == "registry.example/penstock-runtime:v3"
    finally:
        target.helm("uninstall", *release)


def install_yaml(folder: Path, namespace: str) -> list[Object]:
    """Return what `make install-yaml` writes."""
    file = folder / "install.yaml"
    words = (f"INSTALL_YAML={file}", f"NAMESPACE={namespace}", "OPTIONS=--set replicas=0")
    subprocess.run(["make", "--silent", "install-yaml", *words], cwd=ROOT, check=True)
    return load_all(file.read_text())


def test_install_yaml_is_accepted_by_strict_validation_and_serves_the_kinds(
    target: Target, api: Api, tmp_path: Path
) -> None:
    namespace = "penstock-test-install"
    objects = install_yaml(tmp_path, namespace)
    assert objects[0]["metadata"]["name"] == namespace
    assert not any("helm.sh/hook" in _annotations(each) for each in objects)
    options = ("--server-side", "--force-conflicts", "--validate=strict", "--filename", "-")
    own = [manifest for manifest in objects if manifest["kind"] != CRD]
    try:
        output = target.kubectl("apply", *options, stdin=yaml.safe_dump_all(objects))
        assert len(output.splitlines()) == len(objects)
        operator = next(manifest for manifest in own if manifest["kind"] == "Deployment")
        assert api.get(path_of(operator)) is not None
    finally:
        target.kubectl("delete", "--ignore-not-found", "--filename", "-", stdin=yaml.safe_dump_all(own))  # fmt: skip


def _annotations(manifest: Object) -> Any:
    return manifest["metadata"].get("annotations", {})
