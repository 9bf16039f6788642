"""Base manifests and the type of invalid specs, each with the words that its rejection must contain."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

Object = dict[str, Any]

MODULE: Object = {
    "type": "Module",
    "module": {"factory": "penstock_runtime.models.emulated:create"},
}
CLAIM: Object = {
    "type": "PersistentVolumeClaim",
    "persistentVolumeClaim": {"claimName": "models", "path": "resnet/model.pt2"},
}
CLAIMED: Object = {"type": "PersistentVolumeClaim", "claimName": "cache"}
EPHEMERAL: Object = {"type": "Ephemeral", "sizeLimit": "20Gi"}
HUGGING_FACE: Object = {
    "type": "HuggingFace",
    "huggingFace": {
        "repository": "owner/minilm",
        "revision": "main",
        "path": "onnx",
        "tokenSecretRef": {"name": "hf", "key": "token"},
        "cache": CLAIMED,
    },
}
IMAGE: Object = {
    "type": "Image",
    "image": {
        "reference": "registry.example/minilm@sha256:00",
        "pullPolicy": "IfNotPresent",
        "path": "minilm",
    },
}
S3: Object = {
    "type": "S3",
    "s3": {
        "bucket": "models",
        "prefix": "text/minilm",
        "path": ".",
        "endpoint": "https://store.example:9000",
        "region": "eu-central-1",
        "credentialsSecretRef": {"name": "store"},
        "cache": EPHEMERAL,
    },
}
LONG_NAME = "a" * 53


@dataclass(frozen=True)
class Bad:
    """An invalid spec: `change` is merged into a valid one, and the rejection must contain all of `expected_words`.

    A schema error names the field and the value; a CEL error also names the remedy.
    """

    name: str
    change: Mapping[str, Any]
    expected_words: tuple[str, ...]
    metadata_name: str = "bad"


def pool(spec: Mapping[str, Any] | None = None, name: str = "good") -> Object:
    """Return a small pool with `spec` merged into it."""
    base = {
        "model": {"source": MODULE},
        "accelerator": {"resourceName": "nvidia.com/gpu", "count": 1},
    }
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePool",
        "metadata": {"name": name},
        "spec": merged(base, spec or {}),
    }


def policy(spec: Mapping[str, Any] | None = None, name: str = "good") -> Object:
    """Return a small policy with `spec` merged into it."""
    return {
        "apiVersion": "penstock.dev/v1alpha1",
        "kind": "InferencePolicy",
        "metadata": {"name": name},
        "spec": merged({}, spec or {}),
    }


def merged(base: Mapping[str, Any], change: Mapping[str, Any]) -> Object:
    """Return `base` with `change` in it: maps merge, None drops a key, everything else replaces."""
    result = deepcopy(dict(base))
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(result.get(key), Mapping):
            result[key] = merged(result[key], value)
        else:
            result[key] = deepcopy(value)
    return result
