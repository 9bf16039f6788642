"""Volumes, mounts and credentials of each model source; the operator references Secrets and never reads them."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock_operator.decide.manifests.pod_template.container import CONTAINER_NAME
from tests.unit.operator.decide.world import World, policy, pool

CLAIMED = {"type": "PersistentVolumeClaim", "claimName": "cache"}
EPHEMERAL = {"type": "Ephemeral", "sizeLimit": "20Gi"}


def hub(**more: Any) -> dict[str, Any]:
    source = {"repository": "owner/minilm", "cache": CLAIMED, **more}
    return {"task": "Embedding", "source": {"type": "HuggingFace", "huggingFace": source}}


def bucket(**more: Any) -> dict[str, Any]:
    source = {"bucket": "models", "prefix": "minilm", "cache": EPHEMERAL, **more}
    return {"task": "Embedding", "source": {"type": "S3", "s3": source}}


def image(**more: Any) -> dict[str, Any]:
    source = {"reference": "registry.example/minilm:1", **more}
    return {"task": "Embedding", "source": {"type": "Image", "image": source}}


def pod_of(model: dict[str, Any], **spec: Any) -> dict[str, Any]:
    plan = World(pool=pool(model=model, **spec)).run()
    (deployment,) = [write.manifest for write in plan.writes if write.kind == "Deployment"]
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return pod


def volume(pod: dict[str, Any]) -> dict[str, Any]:
    (model,) = [volume for volume in pod["volumes"] if volume["name"] == "penstock-model"]
    return {key: value for key, value in model.items() if key != "name"}


def container(pod: dict[str, Any]) -> dict[str, Any]:
    (runtime,) = [
        container for container in pod["containers"] if container["name"] == CONTAINER_NAME
    ]
    return dict(runtime)


def mount(pod: dict[str, Any]) -> dict[str, Any]:
    (model,) = [
        mount for mount in container(pod)["volumeMounts"] if mount["mountPath"] == "/models"
    ]
    return dict(model)


def env(pod: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in container(pod)["env"]}


@pytest.mark.parametrize("model", [hub(), bucket(cache=CLAIMED)], ids=["hub", "bucket"])
def test_a_cache_on_a_claim_is_mounted_for_writing(model: dict[str, Any]) -> None:
    pod = pod_of(model)
    assert volume(pod) == {"persistentVolumeClaim": {"claimName": "cache"}}
    assert "readOnly" not in mount(pod)


@pytest.mark.parametrize("model", [hub(cache=EPHEMERAL), bucket()], ids=["hub", "bucket"])
def test_an_ephemeral_cache_is_bounded_scratch_space(model: dict[str, Any]) -> None:
    assert volume(pod_of(model)) == {"emptyDir": {"sizeLimit": "20Gi"}}


@pytest.mark.parametrize("cache", [None, {"type": "Ephemeral"}])
@pytest.mark.parametrize("model", [hub, bucket])
def test_without_a_cache_each_pod_has_scratch_space_that_it_may_fill(
    model: Callable[..., dict[str, Any]], cache: dict[str, str] | None
) -> None:
    pod = pod_of(model(cache=cache))
    assert volume(pod) == {"emptyDir": {}}
    assert "readOnly" not in mount(pod)


def test_an_image_is_mounted_read_only() -> None:
    pod = pod_of(image(pullPolicy="Always"))
    assert volume(pod) == {
        "image": {"reference": "registry.example/minilm:1", "pullPolicy": "Always"}
    }
    assert mount(pod)["readOnly"] is True


def test_the_token_is_a_secret_reference_for_the_kubelet() -> None:
    given = env(pod_of(hub(tokenSecretRef={"name": "hf", "key": "token"})))
    assert given["HF_TOKEN"]["valueFrom"] == {"secretKeyRef": {"name": "hf", "key": "token"}}
    assert "HF_TOKEN" not in env(pod_of(hub()))


def test_a_buckets_credentials_are_references_too_and_the_session_token_may_be_absent() -> None:
    given = env(pod_of(bucket(credentialsSecretRef={"name": "store"}, region="eu-central-1")))
    references = {name: given[name]["valueFrom"]["secretKeyRef"] for name in given if "AWS_" in name and "valueFrom" in given[name]}  # fmt: skip
    assert references == {
        "AWS_ACCESS_KEY_ID": {"name": "store", "key": "AWS_ACCESS_KEY_ID"},
        "AWS_SECRET_ACCESS_KEY": {"name": "store", "key": "AWS_SECRET_ACCESS_KEY"},
        "AWS_SESSION_TOKEN": {"name": "store", "key": "AWS_SESSION_TOKEN", "optional": True},
    }
    assert given["AWS_REGION"]["value"] == "eu-central-1"


def test_the_pools_own_environment_can_select_another_hub_or_offline_mode() -> None:
    own = [
        {"name": "HF_ENDPOINT", "value": "http://mirror:8080"},
        {"name": "HF_HUB_OFFLINE", "value": "1"},
    ]
    given = env(pod_of(hub(), template={"container": {"env": own}}))
    assert given["HF_ENDPOINT"]["value"] == "http://mirror:8080"
    assert given["HF_HUB_OFFLINE"]["value"] == "1"


def test_a_bound_on_images_applies_to_the_models_image_too() -> None:
    only_ours = policy("ours", bounds={"template": {"allowedImages": ["registry.example/"]}})
    foreign = World(pool=pool(model=image(reference="evil.example/x:1")), policies=(only_ours,))
    messages = {
        condition.type: condition.message for condition in foreign.run().status.conditions or ()
    }
    assert "spec.model.source.image.reference 'evil.example/x:1'" in messages["PolicyApplied"]
    assert World(pool=pool(model=image()), policies=(only_ours,)).run().writes
