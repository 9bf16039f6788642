"""One whole pool, many times over: its objects as etcd holds them, under other names, UIDs and addresses. Pure.

Five thousand pools of one pod cost the control plane some fifty CPU minutes to make, and 50,000 writes at the operator's own
50 a second; what is measured over them is a start and a quiet while. So one is made, and copied where it is stored.
"""

import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from penstock_api import names
from penstock_operator.decide.manifests.diff import digest
from tests.bench.scale.seals import manifests, seal_of

Stored = Mapping[str, str]
"""Key in etcd -> JSON."""
FIRST_SERVICE = int(IPv4Address("10.96.16.0"))


@dataclass(frozen=True, slots=True)
class Sealed:
    """A child of it, and what its seal is a hash of."""

    key: str
    seal: str
    manifest: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Original:
    """The pool that is copied, and what tells its objects from a copy's."""

    name: str
    stored: Stored
    pod_ip: str
    service_ip: str
    pod_uid: str
    uids: tuple[str, ...]
    revision: str
    """The digest in its revision's name: of the template, with the pool's name in it."""
    sealed: tuple[Sealed, ...] = ()

    @classmethod
    def of(cls, name: str, stored: Stored, now: float) -> "Original":
        """Return the pool under a name, with one pod that is up, out of everything that is stored of it.

        Raises:
            NotSealedSoError: a child is not as this operator would write it; `now` in Unix seconds.
        """
        objects = [json.loads(one) for one in stored.values()]
        keys = {_name(json.loads(one)): key for key, one in stored.items()}
        made = manifests(objects, now)
        pod, service = _one(objects, "Pod"), _one(objects, "Service")
        revision = _one(objects, "ControllerRevision")["metadata"]["name"]
        return cls(
            name=name,
            stored=stored,
            pod_ip=pod["status"]["podIP"],
            service_ip=service["spec"]["clusterIP"],
            pod_uid=pod["metadata"]["uid"],
            uids=tuple(one["metadata"]["uid"] for one in objects),
            revision=revision.rpartition("-")[2],
            sealed=tuple(
                Sealed(keys[each], seal_of(one), json.dumps(one)) for each, one in made.items()
            ),
        )


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy, and how its pod is reached."""

    stored: Stored
    pod_uid: str


def copy(original: Original, name: str, number: int, pod_ip: str) -> Copy:
    """Return the pool again under another `name`; `number` makes its UIDs and its Service's address."""
    changes = {uid: str(uuid.uuid5(uuid.UUID(uid), str(number))) for uid in original.uids}
    changes |= {
        f'"{original.pod_ip}"': f'"{pod_ip}"',
        f'"{original.service_ip}"': f'"{IPv4Address(FIRST_SERVICE + number)}"',
        original.name: name,
    }
    copied = {
        _changed(key, changes): _changed(one, changes) for key, one in original.stored.items()
    }
    template = _one([json.loads(one) for one in copied.values()], "ControllerRevision")
    last = {original.revision: _digest(template["data"]["template"])}
    stored = {_changed(key, last): _changed(one, last) for key, one in copied.items()}
    for one in original.sealed:
        key, manifest = (
            _changed(_changed(text, changes), last) for text in (one.key, one.manifest)
        )
        stored[key] = stored[key].replace(one.seal, seal_of(json.loads(manifest)))
    return Copy(stored, changes[original.pod_uid])


def batches(copies: Iterator[Copy], most_bytes: int) -> Iterator[dict[str, str]]:
    """Yield what is to be stored in portions that one transaction may hold."""
    held: dict[str, str] = {}
    size = 0
    for one in copies:
        length = sum(map(len, one.stored.values()))
        if held and size + length > most_bytes:
            yield held
            held, size = {}, 0
        held |= one.stored
        size += length
    if held:
        yield held


def _digest(template: dict[str, Any]) -> str:
    """Return what `manifests/revision.py` names a template by: it is taken before the label that tells the name."""
    own = template["metadata"]
    labels = {key: one for key, one in own["labels"].items() if key != names.LABEL_REVISION}
    return digest({**template, "metadata": {**own, "labels": labels}})


def _one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    found = [one for one in objects if one["kind"] == kind]
    assert len(found) == 1, f"{len(found)} of {kind} where one was expected"
    return found[0]


def _name(raw: Mapping[str, Any]) -> tuple[str, str]:
    return raw["kind"], raw["metadata"]["name"]


def _changed(text: str, changes: Mapping[str, str]) -> str:
    for old, new in changes.items():
        text = text.replace(old, new)
    return text
