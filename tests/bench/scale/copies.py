"""Copies of a complete pool: its objects in etcd under other names, UIDs and addresses.

The creation of 5,000 pools costs the control plane about fifty CPU minutes, and 50,000 writes at the operator's limit of
50 a second. The bench measures only a start and a quiet period over them, so it creates one pool and copies it in etcd.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from penstock_api import names
from penstock_operator.decide.manifests.diff import digest
from tests.bench.scale.manifest_hashes import manifests, seal_of

Stored = Mapping[str, str]
"""Key in etcd -> JSON."""
FIRST_SERVICE = int(IPv4Address("10.96.16.0"))


@dataclass(frozen=True, slots=True)
class Sealed:
    """A child of the pool, with its seal and the manifest that the seal is a hash of."""

    key: str
    seal: str
    manifest: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Original:
    """The pool to copy, and the values that differ in a copy."""

    name: str
    stored: Stored
    pod_ip: str
    service_ip: str
    pod_uid: str
    uids: tuple[str, ...]
    revision: str
    """The digest in its revision's name, of the template including the pool's name."""
    sealed: tuple[Sealed, ...] = ()

    @classmethod
    def of(cls, name: str, stored: Stored, now: float) -> "Original":
        """Return the pool from its stored objects; it must have one running pod. `now` is in Unix seconds.

        Raises:
            NotSealedSoError: a child differs from the manifest that this operator writes.
        """
        objects = [json.loads(text) for text in stored.values()]
        keys = {_name(json.loads(text)): key for key, text in stored.items()}
        sealed_manifests = manifests(objects, now)
        pod, service = _one(objects, "Pod"), _one(objects, "Service")
        revision = _one(objects, "ControllerRevision")["metadata"]["name"]
        return cls(
            name=name,
            stored=stored,
            pod_ip=pod["status"]["podIP"],
            service_ip=service["spec"]["clusterIP"],
            pod_uid=pod["metadata"]["uid"],
            uids=tuple(manifest["metadata"]["uid"] for manifest in objects),
            revision=revision.rpartition("-")[2],
            sealed=tuple(
                Sealed(keys[each], seal_of(manifest), json.dumps(manifest))
                for each, manifest in sealed_manifests.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """A copied pool: its stored objects, and the UID of its pod."""

    stored: Stored
    pod_uid: str


def copy(original: Original, name: str, number: int, pod_ip: str) -> Copy:
    """Return a copy of the pool under another `name`; its UIDs and its Service's address derive from `number`."""
    changes = {uid: str(uuid.uuid5(uuid.UUID(uid), str(number))) for uid in original.uids}
    changes |= {
        f'"{original.pod_ip}"': f'"{pod_ip}"',
        f'"{original.service_ip}"': f'"{IPv4Address(FIRST_SERVICE + number)}"',
        original.name: name,
    }
    copied = {
        _changed(key, changes): _changed(text, changes) for key, text in original.stored.items()
    }
    template = _one([json.loads(text) for text in copied.values()], "ControllerRevision")
    last = {original.revision: _digest(template["data"]["template"])}
    stored = {_changed(key, last): _changed(text, last) for key, text in copied.items()}
    for child in original.sealed:
        key, manifest = (
            _changed(_changed(text, changes), last) for text in (child.key, child.manifest)
        )
        stored[key] = stored[key].replace(child.seal, seal_of(json.loads(manifest)))
    return Copy(stored, changes[original.pod_uid])


def batches(copies: Iterator[Copy], most_bytes: int) -> Iterator[dict[str, str]]:
    """Yield the objects to store in portions for one transaction each."""
    portion: dict[str, str] = {}
    size = 0
    for copied in copies:
        length = sum(map(len, copied.stored.values()))
        if portion and size + length > most_bytes:
            yield portion
            portion, size = {}, 0
        portion |= copied.stored
        size += length
    if portion:
        yield portion


def _digest(template: dict[str, Any]) -> str:
    """Return the digest by which `manifests/revision.py` names a template, computed without the revision label."""
    own = template["metadata"]
    labels = {key: value for key, value in own["labels"].items() if key != names.LABEL_REVISION}
    return digest({**template, "metadata": {**own, "labels": labels}})


def _one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    matches = [manifest for manifest in objects if manifest["kind"] == kind]
    assert len(matches) == 1, f"{len(matches)} of {kind}, expected one"
    return matches[0]


def _name(raw: Mapping[str, Any]) -> tuple[str, str]:
    return raw["kind"], raw["metadata"]["name"]


def _changed(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
