"""The effect of `spec.tls` and `spec.apiKeys` on the children; a pool without them keeps its template byte for byte."""

from typing import Any

from penstock_api import names
from penstock_operator.decide.limits import pushes
from penstock_operator.decide.manifests.pinned_template import template_inputs
from tests.unit.operator.decide.manifests.test_children import container, env, manifests, pod_of
from tests.unit.operator.decide.world import CONFIG, World, pod, pool

TLS = {"secretRef": {"name": "chat-tls"}}


def test_the_certificate_is_mounted_and_its_folder_is_in_the_environment() -> None:
    volumes = {volume["name"]: volume for volume in pod_of(tls=TLS)["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container(tls=TLS)["volumeMounts"]}
    mounted = mounts[names.TLS_FOLDER]
    assert mounted["readOnly"] is True
    assert volumes[mounted["name"]]["secret"] == {"secretName": "chat-tls"}
    assert env(tls=TLS)[names.ENV_TLS_FOLDER]["value"] == names.TLS_FOLDER


def test_probes_service_and_pods_use_https() -> None:
    runtime = container(tls=TLS)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert runtime[probe]["httpGet"]["scheme"] == "HTTPS"
    children = manifests(tls=TLS)
    assert children["Service"]["spec"]["ports"][0]["appProtocol"] == "https"
    annotations = children["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_SCHEME] == "https"


def test_a_pool_without_tls_has_no_trace_of_it() -> None:
    text = str(manifests())
    for word in ("tls", "HTTPS", names.ANNOTATION_SCHEME):
        assert word not in text


def test_tls_is_a_template_field_and_changes_no_other_pools_inputs() -> None:
    plain, secure = pool(), pool(tls=TLS)
    assert template_inputs(plain) != template_inputs(secure)
    assert template_inputs(plain) == "7f73ba8871"


def test_a_pod_is_called_by_its_own_templates_scheme_during_a_rollout() -> None:
    pods = (pod("old"), pod("new", tls_name="chat.team-a.svc"))
    world = World(pool=pool(tls=TLS), config=CONFIG, pods=pods)
    plan: Any = world.run()
    server_names = {push.pod_uid: push.tls_name for push in pushes(world.view(), plan.limits)}
    assert server_names == {"uid-old": None, "uid-new": "chat.team-a.svc"}


def test_api_keys_are_mounted_from_a_secret_and_their_file_is_in_the_environment() -> None:
    keys = {"secretRef": {"name": "chat-keys", "key": "clients.json"}}
    volumes = {volume["name"]: volume for volume in pod_of(apiKeys=keys)["volumes"]}
    mounts = {mount["mountPath"]: mount for mount in container(apiKeys=keys)["volumeMounts"]}
    mounted = mounts[names.API_KEYS_FOLDER]
    assert mounted["readOnly"] is True
    assert volumes[mounted["name"]]["secret"] == {
        "secretName": "chat-keys",
        "items": [{"key": "clients.json", "path": names.API_KEYS_FILE}],
    }
    file = env(apiKeys=keys)[names.ENV_API_KEYS_FILE]["value"]
    assert file == f"{names.API_KEYS_FOLDER}/{names.API_KEYS_FILE}"
    assert template_inputs(pool()) != template_inputs(pool(apiKeys=keys))
