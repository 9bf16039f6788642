"""Volumes, mounts and credentials that a model's source requires of the pod.

The operator references Secrets by name and never reads them: the kubelet passes their values to the container only.
"""

from typing import Any

from penstock_api import names
from penstock_api.types.sources import (
    HuggingFaceSource,
    ImageSource,
    ModelCache,
    ModelSource,
    S3Source,
)
from penstock_operator.decide.manifests.metadata import Manifest

MODEL_VOLUME = "penstock-model"


def model_volumes(source: ModelSource) -> list[Manifest]:
    """Return the volume of the model folder; a factory has none."""
    claim, fetched = source.persistent_volume_claim, source.fetched
    if claim is not None:
        volume: dict[str, Any] = {"claimName": claim.claim_name, "readOnly": True}
        return [{"name": MODEL_VOLUME, "persistentVolumeClaim": volume}]
    if source.image is not None:
        return [{"name": MODEL_VOLUME, "image": _image(source.image)}]
    return [{"name": MODEL_VOLUME, **_cache(fetched.cache)}] if fetched is not None else []


def model_mounts(source: ModelSource) -> list[Manifest]:
    """Return the mount of the model folder: read-only, except for a cache that the pod fills."""
    if source.files is None:
        return []
    mount: Manifest = {"name": MODEL_VOLUME, "mountPath": names.MODEL_FOLDER}
    return [mount if source.fetched is not None else {**mount, "readOnly": True}]


def model_environment(source: ModelSource) -> list[Manifest]:
    """Return the environment variables of huggingface_hub or botocore."""
    if source.hugging_face is not None:
        return _hugging_face(source.hugging_face)
    return _s3(source.s3) if source.s3 is not None else []


def _image(image: ImageSource) -> Manifest:
    policy = {"pullPolicy": image.pull_policy.value} if image.pull_policy else {}
    return {"reference": image.reference, **policy}


def _cache(cache: ModelCache | None) -> Manifest:
    """Return the volume of a cache; without one, scratch space of the pod."""
    if cache is not None and cache.claim_name is not None:
        return {"persistentVolumeClaim": {"claimName": cache.claim_name}}
    limit = cache.size_limit if cache is not None else None
    return {"emptyDir": {} if limit is None else {"sizeLimit": str(limit)}}


def _hugging_face(source: HuggingFaceSource) -> list[Manifest]:
    entries: list[Manifest] = [{"name": "HF_HUB_DISABLE_TELEMETRY", "value": "1"}]
    if source.token_secret_ref is not None:
        entries.append(
            _secret("HF_TOKEN", source.token_secret_ref.name, source.token_secret_ref.key)
        )
    return entries


def _s3(source: S3Source) -> list[Manifest]:
    entries: list[Manifest] = []
    if source.region is not None:
        entries.append({"name": "AWS_REGION", "value": source.region})
        entries.append({"name": "AWS_DEFAULT_REGION", "value": source.region})
    if source.credentials_secret_ref is not None:
        name = source.credentials_secret_ref.name
        entries += [_secret(key, name, key) for key in names.S3_CREDENTIALS]
        entries.append(_secret(names.S3_SESSION_TOKEN, name, names.S3_SESSION_TOKEN, optional=True))
    return entries


def _secret(variable: str, name: str, key: str, *, optional: bool = False) -> Manifest:
    reference: Manifest = {"name": name, "key": key} | ({"optional": True} if optional else {})
    return {"name": variable, "valueFrom": {"secretKeyRef": reference}}
