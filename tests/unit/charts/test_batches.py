"""The batch service in the namespaces that the values list."""

import pytest

from penstock_batches.config import BatchSettings
from tests.support.kube.target import ProgramFailedError
from tests.unit.charts.rendered import CHART, Object, only, render

ENABLED = {
    "batches__enabled": "true",
    "batches__namespaces": "{team-a,team-b}",
    "batches__image__repository": "registry.example/penstock-batches",
}
REDIS = {"batches__store": "Redis", "batches__redis__urlSecret__name": "redis"}


def test_a_pod_monitor_scrapes_the_services_of_the_listed_namespaces() -> None:
    monitors = [
        each
        for each in render(CHART, **ENABLED, poolMonitor__enabled="true")
        if each["kind"] == "PodMonitor" and each["metadata"]["name"].endswith("-batches")
    ]
    spec = only(monitors, "PodMonitor")["spec"]
    deployment = only(of_batches(render(CHART, **ENABLED)), "Deployment")
    assert spec["namespaceSelector"]["matchNames"] == ["team-a", "team-b"]
    assert spec["selector"] == deployment["spec"]["selector"]
    assert spec["podMetricsEndpoints"][0]["port"] == "metrics"


def of_batches(objects: list[Object], namespace: str = "team-a") -> list[Object]:
    return [
        each
        for each in objects
        if each["metadata"]["name"] == "penstock-batches"
        and each["metadata"].get("namespace") == namespace
    ]


def container(**values: str) -> Object:
    deployment = only(of_batches(render(CHART, **ENABLED, **values)), "Deployment")
    template: Object = deployment["spec"]["template"]["spec"]["containers"][0]
    return template


def test_each_namespace_has_a_service_of_its_own_and_none_has_one_unless_enabled() -> None:
    assert of_batches(render()) == []
    objects = render(CHART, **ENABLED)
    for namespace in ("team-a", "team-b"):
        kinds = sorted(each["kind"] for each in of_batches(objects, namespace))
        assert kinds == [
            "Deployment", "PersistentVolumeClaim", "Role", "RoleBinding", "Service", "ServiceAccount",
        ]  # fmt: skip


def test_it_may_list_pools_and_nothing_else() -> None:
    role = only(of_batches(render(CHART, **ENABLED)), "Role")
    assert role["rules"] == [
        {"apiGroups": ["penstock.dev"], "resources": ["inferencepools"], "verbs": ["list"]}
    ]


@pytest.mark.parametrize("store", [{}, REDIS])
def test_its_config_takes_every_setting_of_the_chart(store: dict[str, str]) -> None:
    more = {
        "batches__apiKeysSecret__name": "keys",
        "batches__poolCaConfigMap__name": "pools",
        "batches__redis__caConfigMap__name": "ca",
        "batches__redis__clientCertificateSecret__name": "client",
    }
    environment = {
        each["name"]: each.get("value", "rediss://user:secret@redis:6380/0")
        for each in container(**store, **more)["env"]
    }
    settings = BatchSettings.from_env(environment)
    assert settings.api_keys_file == "/etc/penstock-keys/keys.json"
    assert settings.pool_ca_file == "/etc/penstock-pools/ca.crt"
    assert settings.store == ("Redis" if store else "SQLite")
    files = (settings.redis_ca_file, settings.redis_cert_file, settings.redis_key_file)
    assert [bool(file) for file in files] == [bool(store)] * 3


def test_its_pod_is_restricted_and_writes_to_its_volume_alone() -> None:
    pod = only(of_batches(render(CHART, **ENABLED)), "Deployment")["spec"]["template"]["spec"]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["fsGroup"] == 65532
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {each["mountPath"] for each in pod["containers"][0]["volumeMounts"]}
    assert mounts == {BatchSettings(namespace="a").folder, "/tmp"}  # noqa: S108  an emptyDir


def test_a_claim_of_ones_own_replaces_the_charts() -> None:
    objects = of_batches(render(CHART, **ENABLED, batches__volume__existingClaim="mine"))
    assert not [each for each in objects if each["kind"] == "PersistentVolumeClaim"]
    volumes = only(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "volume", "persistentVolumeClaim": {"claimName": "mine"}} in volumes


@pytest.mark.parametrize(
    ("values", "remedy"),
    [
        ({"batches__image__repository": ""}, "build operator/batches.Dockerfile"),
        ({"batches__store": "Redis"}, "needs batches.redis.urlSecret.name"),
        ({"batches__replicas": "2"}, "needs batches.store Redis"),
        (REDIS | {"batches__replicas": "2"}, "set batches.volume.accessMode ReadWriteMany"),
        ({"batches__namespaces": "null"}, "list the namespaces"),
    ],
)
def test_values_that_cannot_work_are_rejected_with_a_remedy(
    values: dict[str, str], remedy: str
) -> None:
    with pytest.raises(ProgramFailedError, match=remedy):
        render(CHART, **ENABLED | values)
