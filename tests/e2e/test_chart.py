"""`helm test`, and an operator with every value of the chart changed."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.kube import install
from tests.support.kube.api import Api
from tests.support.kube.install import CHART, OPERATOR_NAMESPACE, RELEASE, ROOT, Images
from tests.support.kube.monitoring import monitoring_kinds
from tests.support.kube.namespaces import named_namespace
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.target import Target
from tests.unit.operator.net.certificates import Authority

CHANGED = ROOT / "tests" / "unit" / "charts" / "changed.yaml"
VALUES: Any = yaml.safe_load(CHANGED.read_text())
HOME: str = VALUES["namespaceOverride"]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
PASSED = ("penstock.dev/v1alpha1 is served", "a pool is accepted in a dry run", "replicas of the operator are Ready", "leads")  # fmt: skip


def helm_test(target: Target, release: str, namespace: str) -> list[str]:
    """Run `helm test` and return the lines of its Pod."""
    said = target.helm("test", release, "--namespace", namespace, "--logs", "--timeout", "2m")
    passed = [line.removeprefix("ok: ") for line in said.splitlines() if line.startswith("ok: ")]
    return list(
        dict.fromkeys(passed)
    )  # helm prints the log for each of the hooks that have the Pod's name


def test_helm_test_passes_under_restricted_pod_security_and_leaves_no_permission(
    target: Target, api: Api, operator: InstalledOperator
) -> None:
    api.merge(f"/api/v1/namespaces/{OPERATOR_NAMESPACE}", {"metadata": {"labels": RESTRICTED}})
    lines = helm_test(target, RELEASE, OPERATOR_NAMESPACE)
    assert len(lines) == len(PASSED)
    assert all(line.endswith(words) for line, words in zip(lines, PASSED, strict=True)), lines
    name = f"{RELEASE}-operator-test"
    for path in ("api/v1/{}/serviceaccounts", "apis/rbac.authorization.k8s.io/v1/{}/roles"):
        where = path.format(f"namespaces/{OPERATOR_NAMESPACE}")
        assert api.get(f"/{where}/{name}") is None


@pytest.fixture
def prepared(api: Api, tmp_path: Path) -> Iterator[None]:
    """The namespaces, and the objects that the changed values name."""
    with ExitStack() as stack:
        for name in (HOME, *VALUES["namespaces"]):
            stack.enter_context(named_namespace(api, name, "e2e"))
        stack.enter_context(monitoring_kinds(api))
        create_referenced(api, tmp_path)
        yield


def create_referenced(api: Api, folder: Path) -> None:
    """Create the ConfigMaps and Secrets that the changed values name."""
    authority = Authority.make()
    authority.issue(folder, f"acme-operator.{HOME}.svc")
    for name in (VALUES["prometheus"]["caConfigMap"]["name"], VALUES["poolAuthorities"]["configMapName"]):  # fmt: skip
        head = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"root.pem": authority.pem()}}
        api.apply({**head, "metadata": {"name": name, "namespace": HOME}})
    secrets = {
        VALUES["tls"]["secretName"]: {file.name: file.read_text() for file in folder.glob("tls.*")},
        VALUES["prometheus"]["credentialsSecret"]: {"token": "t"},
    }
    for name, data in secrets.items():
        kind = "kubernetes.io/tls" if "tls.key" in data else "Opaque"
        head = {"apiVersion": "v1", "kind": "Secret", "type": kind, "stringData": data}
        api.apply({**head, "metadata": {"name": name, "namespace": HOME}})


@pytest.mark.alone
def test_an_operator_with_every_value_changed_becomes_ready_and_passes_helm_test(
    target: Target, api: Api, images: Images, prepared: None
) -> None:
    """Except rights and accounts, which the chart makes here, the UID, which nothing but OpenShift would assign, and the
    batch service, whose changed values name a Redis."""
    registry, _, rest = images.operator.partition("/")
    repository, _, tag = rest.rpartition(":")
    actual = {
        "image.registry": registry, "image.repository": repository, "image.tag": tag, "image.digest": "",
        "image.pullPolicy": "IfNotPresent", "platform": "Kubernetes", "rbac.create": "true",
        "rbac.readPolicies": "true", "serviceAccount.create": "true", "batches.enabled": "false",
    }  # fmt: skip
    sets = [word for name, value in actual.items() for word in ("--set", f"{name}={value}")]
    install.install_crds(api)
    release = ("changed", "--namespace", HOME)
    wait = ("--wait", "--timeout", "3m")
    target.helm("install", *release, CHART, "--values", CHANGED, *sets, *wait)
    try:
        assert len(helm_test(target, "changed", HOME)) == len(PASSED)
    finally:
        target.helm("uninstall", *release, "--wait")
