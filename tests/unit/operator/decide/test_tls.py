"""What `spec.tls` and `spec.apiKeys` make of the children, and that a pool without it stays byte for byte as it was."""

from typing import Any

from penstock_api import names
from penstock_operator.decide.limits import pushes
from penstock_operator.decide.manifests.pinned_template import template_inputs
from tests.unit.operator.decide.test_children import container, env, manifests, pod_of
from tests.unit.operator.decide.world import CONFIG, World, pod, pool

TLS = {"secretRef": {"name": "chat-tls"}}


def test_the_certificate_is_mounted_and_named_to_the_runtime() -> None:
    volumes = {one["name"]: one for one in pod_of(tls=TLS)["volumes"]}
    mounts = {one["mountPath"]: one for one in container(tls=TLS)["volumeMounts"]}
    mounted = mounts[names.TLS_FOLDER]
    assert mounted["readOnly"] is True
    assert volumes[mounted["name"]]["secret"] == {"secretName": "chat-tls"}
    assert env(tls=TLS)[names.ENV_TLS_FOLDER]["value"] == names.TLS_FOLDER


def test_probes_service_and_pods_say_https() -> None:
    one = container(tls=TLS)
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert one[probe]["httpGet"]["scheme"] == "HTTPS"
    made = manifests(tls=TLS)
    assert made["Service"]["spec"]["ports"][0]["appProtocol"] == "https"
    annotations = made["Deployment"]["spec"]["template"]["metadata"]["annotations"]
    assert annotations[names.ANNOTATION_SCHEME] == "https"


def test_without_it_nothing_of_it_is_there() -> None:
    text = str(manifests())
    for word in ("tls", "HTTPS", names.ANNOTATION_SCHEME):
        assert word not in text


def test_it_is_of_the_template_class_and_moves_no_other_pools_inputs() -> None:
    plain, secure = pool(), pool(tls=TLS)
    assert template_inputs(plain) != template_inputs(secure)
    assert template_inputs(plain) == "7f73ba8871"


def test_a_pod_is_called_as_its_own_template_says_while_a_rollout_is_under_way() -> None:
    pods = (pod("old"), pod("new", tls_name="chat.team-a.svc"))
    world = World(pool=pool(tls=TLS), config=CONFIG, pods=pods)
    plan: Any = world.run()
    told = {one.pod_uid: one.tls_name for one in pushes(world.view(), plan.limits)}
    assert told == {"uid-old": None, "uid-new": "chat.team-a.svc"}


def test_api_keys_are_mounted_from_one_key_of_a_secret_and_named_to_the_runtime() -> None:
    keys = {"secretRef": {"name": "chat-keys", "key": "clients.json"}}
    volumes = {one["name"]: one for one in pod_of(apiKeys=keys)["volumes"]}
    mounts = {one["mountPath"]: one for one in container(apiKeys=keys)["volumeMounts"]}
    mounted = mounts[names.API_KEYS_FOLDER]
    assert mounted["readOnly"] is True
    assert volumes[mounted["name"]]["secret"] == {
        "secretName": "chat-keys",
        "items": [{"key": "clients.json", "path": names.API_KEYS_FILE}],
    }
    file = env(apiKeys=keys)[names.ENV_API_KEYS_FILE]["value"]
    assert file == f"{names.API_KEYS_FOLDER}/{names.API_KEYS_FILE}"
    assert template_inputs(pool()) != template_inputs(pool(apiKeys=keys))
