"""Install, upgrade, rollback, uninstall of the chart on the real API server; the operator itself stays at 0 pods."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from penstock_api import names
from tests.integration.api.cases import pool
from tests.support.kube.api import Api, Object, path_of
from tests.support.kube.install import ROOT
from tests.support.kube.target import Target

pytestmark = pytest.mark.integration

CHART = ROOT / "charts" / "penstock"
SETTINGS = (
    "replicas=0",
    "image.repository=localhost/penstock-operator",
    "image.tag=dev",
    "defaultRuntimeImage=localhost/penstock-runtime:dev",
)


@dataclass(frozen=True)
class Release:
    """A release of the chart: upgrade, its Deployment, and the permissions of its operator."""

    target: Target
    api: Api
    name: str
    namespace: str

    def helm(self, *arguments: str) -> str:
        return self.target.helm(*arguments, "--namespace", self.namespace)

    def upgrade(self, *settings: str) -> str:
        sets = [word for setting in (*SETTINGS, *settings) for word in ("--set", setting)]
        return self.helm(
            "upgrade", "--install", self.name, str(CHART), "--take-ownership", "--wait",
            "--timeout", "60s", *sets,
        )  # fmt: skip

    def deployment(self) -> Object | None:
        name = f"{self.name}-operator"
        return self.api.get(f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}")

    def prometheus_url(self) -> str | None:
        deployment = self.deployment()
        assert deployment is not None
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        environment = {variable["name"]: variable.get("value") for variable in container["env"]}
        return environment.get("PENSTOCK_PROMETHEUS_URL")

    def may(self, words: str, namespace: str) -> bool:
        """Return whether the operator has a permission: verb, group/resource[/subresource], and optionally a name."""
        verb, where, *name = words.split()
        group, resource, *sub = where.split("/")
        attributes = {
            "verb": verb,
            "group": "" if group == "core" else group,
            "resource": resource,
            "subresource": "".join(sub),
            "name": "".join(name),
            "namespace": namespace,
        }
        user = f"system:serviceaccount:{self.namespace}:{self.name}-operator"
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        }
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self.api.request("POST", path, review)["status"]["allowed"])


@pytest.fixture
def release(target: Target, api: Api, namespace: str) -> Iterator[Release]:
    installed = Release(target, api, f"penstock-{time.time_ns() % 10**6}", namespace)
    installed.upgrade()
    yield installed
    installed.helm("uninstall", installed.name, "--ignore-not-found")


def test_an_upgrade_and_a_rollback_change_the_settings_and_nothing_else(release: Release) -> None:
    assert release.prometheus_url() is None
    release.upgrade("prometheus.url=http://prometheus.monitoring:9090")
    assert release.prometheus_url() == "http://prometheus.monitoring:9090"
    release.helm("rollback", release.name, "1", "--wait")
    assert release.prometheus_url() is None


def test_uninstalling_takes_the_operator_and_leaves_crds_and_pools(
    release: Release, api: Api
) -> None:
    path = f"/apis/penstock.dev/v1alpha1/namespaces/{release.namespace}/inferencepools"
    api.request("POST", path, pool({"replicas": 0}, "kept"))
    leader_lease = lease(release.namespace, "penstock-operator-7d_1f")
    api.create(leader_lease)
    release.helm("uninstall", release.name, "--wait")
    assert release.deployment() is None
    assert (
        api.get(path_of(leader_lease)) is None
    )  # the operator's pod no longer has the rights to release it
    assert (
        api.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{release.name}-operator") is None
    )
    assert api.get(f"{path}/kept") is not None
    release.upgrade()
    assert api.get(f"{path}/kept") is not None
    api.delete(f"{path}/kept")


def lease(namespace: str, holder: str) -> Object:
    """Return the operator's Lease with a holder."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": names.LEASE_NAME, "namespace": namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15},
    }


def test_a_release_of_another_name_adopts_the_resources_of_an_uninstalled_one(
    release: Release, target: Target, api: Api
) -> None:
    path = f"/apis/penstock.dev/v1alpha1/namespaces/{release.namespace}/inferencepools"
    kept_pool = api.request("POST", path, pool({"replicas": 0}, "kept"))
    release.helm("uninstall", release.name, "--wait")
    other = Release(target, api, f"other-{release.name}", release.namespace)
    try:
        other.upgrade()
        assert api.request("GET", f"{path}/kept")["metadata"]["uid"] == kept_pool["metadata"]["uid"]
        crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/inferencepools.penstock.dev"
        notes = api.request("GET", crd)["metadata"]["annotations"]
        assert notes["meta.helm.sh/release-name"] == other.name
        assert other.may("patch penstock.dev/inferencepools/status", release.namespace)
    finally:
        other.helm("uninstall", other.name, "--wait")
        api.delete(f"{path}/kept")


NEEDED_PERMISSIONS = (
    "watch penstock.dev/inferencepools",
    "create penstock.dev/inferencepools",
    "patch penstock.dev/inferencepools",
    "delete penstock.dev/inferencepools",
    "patch penstock.dev/inferencepools/status",
    "patch penstock.dev/inferencepolicies/status",
    "create apps/deployments",
    "patch core/services",
    "delete apps/controllerrevisions",
    "create core/events",
    "list core/pods",
    "watch core/namespaces",
)
DENIED_PERMISSIONS = (
    "patch penstock.dev/inferencepolicies",
    "delete penstock.dev/inferencepolicies",
    "get core/secrets",
    "create core/secrets",
    "get coordination.k8s.io/leases",
    "delete core/pods",
    "create core/pods/exec",
    "get core/nodes",
    "list apiextensions.k8s.io/customresourcedefinitions",
    "create rbac.authorization.k8s.io/rolebindings",
)


def test_the_operator_has_the_permissions_it_needs_and_no_others(release: Release) -> None:
    assert [
        permission for permission in NEEDED_PERMISSIONS if not release.may(permission, "default")
    ] == []
    assert [
        permission for permission in DENIED_PERMISSIONS if release.may(permission, "default")
    ] == []


def test_the_operators_lease_and_key_are_in_its_own_namespace(release: Release) -> None:
    own = release.namespace
    assert release.may("get core/secrets penstock-control-signing-key", own)
    assert release.may("update coordination.k8s.io/leases penstock-operator", own)
    assert not release.may("get core/secrets another", own)
    assert not release.may("list core/secrets", own)
