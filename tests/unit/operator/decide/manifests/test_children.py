"""The manifests of a pool's children: names, environment, probes, security, files, devices, rollout."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from penstock_api import names
from penstock_api.types.pod_template.container import ImagePullPolicy
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.manifests.pod_template.container import CONTAINER_NAME
from penstock_operator.decide.manifests.pod_template.volumes import SCRATCH_FOLDER
from tests.unit.operator.decide.world import CONFIG, World, pool

CLAIM = {
    "source": {
        "type": "PersistentVolumeClaim",
        "persistentVolumeClaim": {"claimName": "weights", "path": "resnet/model.pt2"},
    }
}


def manifests(config: DecideConfig = CONFIG, **spec: Any) -> dict[str, Mapping[str, Any]]:
    plan = World(pool=pool(**spec), config=config).run()
    return {write.kind: write.manifest for write in plan.writes}


def pod_of(**spec: Any) -> dict[str, Any]:
    pod: dict[str, Any] = manifests(**spec)["Deployment"]["spec"]["template"]["spec"]
    return pod


def container(config: DecideConfig = CONFIG, **spec: Any) -> dict[str, Any]:
    container: dict[str, Any]
    (container,) = manifests(config, **spec)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return container


def env(**spec: Any) -> dict[str, Any]:
    return {entry["name"]: entry for entry in container(**spec)["env"]}


def test_the_service_has_the_client_port_and_not_the_control_port() -> None:
    (port,) = manifests()["Service"]["spec"]["ports"]
    assert (port["name"], port["port"], port["targetPort"]) == ("http", 8000, "http")


def test_the_budget_lets_a_drain_take_one_pod_and_any_broken_one() -> None:
    spec = manifests()["PodDisruptionBudget"]["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")


def test_pods_meet_restricted_pod_security() -> None:
    pod = pod_of()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_pods_mount_no_token_unless_the_pool_names_a_service_account() -> None:
    assert pod_of()["automountServiceAccountToken"] is False
    assert pod_of()["serviceAccountName"] == "chat-penstock"
    own = pod_of(template={"serviceAccountName": "mine"})
    assert own["serviceAccountName"] == "mine"
    assert "automountServiceAccountToken" not in own


def test_no_service_of_the_namespace_leaks_into_the_environment() -> None:
    assert pod_of()["enableServiceLinks"] is False


def test_the_environment_has_the_pods_identity_and_model() -> None:
    given = env()
    assert given[names.ENV_POOL]["value"] == "chat"
    assert given[names.ENV_POD_UID]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.uid"
    assert given[names.ENV_NAMESPACE]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    model = json.loads(given[names.ENV_MODEL]["value"])
    assert model == {
        "name": "chat",
        "source": {"type": "Module", "module": {"factory": "models:create"}},
    }


def test_a_claim_is_mounted_read_only_where_the_runtime_resolves_its_path() -> None:
    model = json.loads(env(model=CLAIM)[names.ENV_MODEL]["value"])
    assert model["source"]["persistentVolumeClaim"]["path"] == "resnet/model.pt2"
    volumes = {volume["name"]: volume for volume in pod_of(model=CLAIM)["volumes"]}
    source = {"claimName": "weights", "readOnly": True}
    assert volumes["penstock-model"]["persistentVolumeClaim"] == source
    mounts = {mount["mountPath"]: mount for mount in container(model=CLAIM)["volumeMounts"]}
    assert mounts["/models"]["readOnly"] is True


def test_the_settings_are_mounted_where_the_runtime_re_reads_them() -> None:
    mounts = {mount["mountPath"]: mount["name"] for mount in container()["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod_of()["volumes"]}
    settings = volumes[mounts[names.SETTINGS_FOLDER]]
    assert settings["configMap"] == {"name": "chat-penstock"}
    assert set(manifests()["ConfigMap"]["data"]) == {names.LIMITS_FILE, names.CONTROL_KEYS_FILE}


def test_scratch_is_the_only_writable_mount_and_a_pool_may_replace_it() -> None:
    mounts = [mount["mountPath"] for mount in container()["volumeMounts"]]
    assert mounts.count(SCRATCH_FOLDER) == 1
    own = {
        "volumes": [{"name": "big", "emptyDir": {"sizeLimit": "5Gi"}}],
        "container": {"volumeMounts": [{"name": "big", "mountPath": SCRATCH_FOLDER}]},
    }
    mounted = container(template=own)["volumeMounts"]
    assert [item["name"] for item in mounted if item["mountPath"] == SCRATCH_FOLDER] == ["big"]


def test_a_pools_own_variable_wins_over_a_built_in_one() -> None:
    assert env()["OMP_NUM_THREADS"]["value"] == "1"
    own = {"container": {"env": [{"name": "OMP_NUM_THREADS", "value": "4"}]}}
    given = container(template=own)["env"]
    assert [item["value"] for item in given if item["name"] == "OMP_NUM_THREADS"] == ["4"]


def test_on_a_cpu_torch_gets_as_many_threads_as_the_container_has_cores() -> None:
    cpu = {"resourceName": "nvidia.com/gpu", "count": 0}
    threads = env(accelerator=cpu)["OMP_NUM_THREADS"]
    assert threads["valueFrom"]["resourceFieldRef"]["resource"] == "limits.cpu"


@pytest.mark.parametrize(
    ("accelerator", "limits"),
    [
        (None, {"nvidia.com/gpu": "1"}),
        ({"resourceName": "nvidia.com/gpu", "count": 2}, {"nvidia.com/gpu": "2"}),
        ({"resourceName": "amd.com/gpu", "count": 1}, {"amd.com/gpu": "1"}),
        ({"resourceName": "nvidia.com/gpu", "count": 0}, None),
        ({"count": 0}, None),
        ({"resourceName": "amd.com/gpu"}, {"amd.com/gpu": "1"}),
        ({}, {"nvidia.com/gpu": "1"}),
    ],
)
def test_a_replica_requests_its_accelerators_and_the_cpu_is_explicit(
    accelerator: dict[str, Any] | None, limits: dict[str, str] | None
) -> None:
    given: dict[str, Any] = {} if accelerator is None else {"accelerator": accelerator}
    assert container(**given).get("resources", {}).get("limits") == limits


def test_cpu_and_memory_come_from_the_pool() -> None:
    own = {"container": {"resources": {"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}}}
    assert container(template=own)["resources"] == {
        "requests": {"cpu": "100m"},
        "limits": {"memory": "1Gi", "nvidia.com/gpu": "1"},
    }


def test_the_kubelet_waits_for_a_slow_model_but_not_for_a_dead_engine() -> None:
    runtime = container()
    startup, liveness = runtime["startupProbe"], runtime["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 3600
    assert startup["timeoutSeconds"] > 600
    assert startup["httpGet"] == {"path": "/readyz?waitSeconds=600", "port": "control"}
    assert liveness["periodSeconds"] * liveness["failureThreshold"] <= 60
    assert liveness["httpGet"] == {"path": "/healthz", "port": "control"}
    assert runtime["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "control"}


@pytest.mark.parametrize(("spec", "deadline"), [({}, 120), ({"drain": {"deadlineSeconds": 7}}, 7)])
def test_the_grace_period_outlasts_the_drain(spec: dict[str, Any], deadline: int) -> None:
    assert pod_of(**spec)["terminationGracePeriodSeconds"] == deadline + 20
    assert env(**spec)[names.ENV_DRAIN_DEADLINE_SECONDS]["value"] == str(deadline)


TEXTS = {
    "task": "TextGeneration",
    "source": {
        "type": "PersistentVolumeClaim",
        "persistentVolumeClaim": {"claimName": "m", "path": "."},
    },
}


def test_a_pod_that_generates_text_has_time_to_relay_what_its_pool_continues() -> None:
    spec = {"model": TEXTS, "drain": {"deadlineSeconds": 7, "relaySeconds": 30}}
    assert pod_of(**spec)["terminationGracePeriodSeconds"] == 7 + 30 + 20
    variables = env(**spec)
    assert variables[names.ENV_RELAY_SECONDS]["value"] == "30"
    assert variables[names.ENV_PEER_URL]["value"] == "http://chat.team-a.svc:8000"
    secure = env(**spec, tls={"secretRef": {"name": "chat-tls"}})
    assert secure[names.ENV_PEER_URL]["value"].startswith("https://chat.team-a.svc")
    assert pod_of(model=TEXTS)["terminationGracePeriodSeconds"] == 120 + 600 + 20


@pytest.mark.parametrize("spec", [{"drain": {"relaySeconds": 0}, "model": TEXTS}, {}])
def test_without_time_to_relay_a_pod_knows_no_peers(spec: dict[str, Any]) -> None:
    assert names.ENV_PEER_URL not in env(**spec)
    assert pod_of(**spec)["terminationGracePeriodSeconds"] == 120 + 20


def test_a_crash_leaves_its_reason_in_the_termination_message() -> None:
    runtime = container()
    assert runtime["terminationMessagePath"] == names.TERMINATION_LOG
    assert runtime["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert runtime["name"] == CONTAINER_NAME == "runtime"


@pytest.mark.parametrize(
    ("rollout", "surge", "unavailable"),
    [
        ({}, 1, 0),
        ({"strategy": "SurgeThenReplace"}, 1, 0),
        ({"strategy": "Surge"}, 1, 0),
        ({"strategy": "Replace"}, 0, 1),
    ],
)
def test_a_rollout_surges_by_one_or_ends_one_first(
    rollout: dict[str, str], surge: int, unavailable: int
) -> None:
    strategy = manifests(rollout=rollout)["Deployment"]["spec"]["strategy"]
    assert strategy == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
    }


def test_an_image_is_the_pools_own_or_the_administrators_default() -> None:
    assert container()["image"] == CONFIG.default_runtime_image
    assert container(runtime={"image": "mine:1"})["image"] == "mine:1"


def test_the_pull_policy_is_the_pools_then_the_administrators_then_the_clusters() -> None:
    assert "imagePullPolicy" not in container()
    config = DecideConfig("x:1", image_pull_policy=ImagePullPolicy.NEVER)
    assert container(config)["imagePullPolicy"] == "Never"
    assert container(config, runtime={"imagePullPolicy": "Always"})["imagePullPolicy"] == "Always"


def test_a_pools_labels_never_replace_the_operators() -> None:
    own = {"labels": {"team": "a", names.LABEL_POOL_UID: "stolen"}}
    template = manifests(template=own)["Deployment"]["spec"]["template"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"][names.LABEL_POOL_UID] == "uid-chat"
