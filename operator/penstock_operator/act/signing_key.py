"""Signing keys for calls to pods, in a Secret in the operator's own namespace.

A key is published before it signs: pods read the public keys from their ConfigMap, which the kubelet refreshes within
about 90 s. A new key therefore signs after `PUBLISH_SECONDS`, and a replaced public key stays published for a day.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from penstock_api import names
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.writer import Writer
from penstock_operator.errors import ObjectNotFound
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.net.tokens import BadSigningKey, Signer

SECRET = ResourceKind("Secret", "", "v1", "secrets")
FIELD = "keys.json"
ROTATE_SECONDS = 30 * 86_400.0
PUBLISH_SECONDS = 600.0
RETIRE_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True, repr=False)
class SigningKey:
    """A signing key and its creation time in Unix seconds."""

    signer: Signer
    created: float


@dataclass(frozen=True, slots=True, repr=False)
class SigningKeys:
    """The key ring: oldest first, never empty."""

    keys: tuple[SigningKey, ...]

    def signer(self, now: float) -> Signer:
        """Return the newest key that pods have had time to read, or the oldest if there is none."""
        published = [key for key in self.keys if now - key.created >= PUBLISH_SECONDS]
        return (published[-1] if published else self.keys[0]).signer

    def public_keys(self) -> Mapping[str, str]:
        """Return every public key by its id."""
        return {key.signer.kid: key.signer.public_key() for key in self.keys}


def rotated(ring: SigningKeys | None, now: float) -> SigningKeys:
    """Return the ring with a new key if the last one is old, and without keys that were replaced long ago."""
    keys = list(ring.keys) if ring else []
    if not keys or now - keys[-1].created >= ROTATE_SECONDS:
        keys.append(SigningKey(Signer.generate(), now))
    old = {key.signer.kid for key, newer in pairwise(keys) if now - newer.created >= RETIRE_SECONDS}
    return SigningKeys(tuple(key for key in keys if key.signer.kid not in old))


def encode(ring: SigningKeys) -> Mapping[str, str]:
    """Return the Secret's `data`."""
    keys = [{"created": key.created, "pem": key.signer.pem().decode()} for key in ring.keys]
    return {FIELD: b64encode(json.dumps(keys).encode()).decode()}


def decode(data: Mapping[str, str]) -> SigningKeys | None:
    """Return the ring in a Secret's `data`, or None if it is unusable and must be replaced."""
    try:
        stored = json.loads(b64decode(data[FIELD]))
        keys = tuple(
            SigningKey(Signer.from_pem(entry["pem"].encode()), float(entry["created"]))
            for entry in stored
        )
    except (KeyError, TypeError, AttributeError, BadSigningKey, ValueError):
        return None
    return SigningKeys(tuple(sorted(keys, key=_created))) if keys else None


def _created(key: SigningKey) -> float:
    return key.created


async def load_keys(writer: Writer, namespace: str, now: float) -> SigningKeys:
    """Return the keys, after creating or rotating them if that is due.

    Raises:
        Conflict: another operator wrote first: load again.
        ClusterError, NotLeading: as `Writer.write`.
    """
    path = SECRET.path(namespace, names.SIGNING_KEY_SECRET)
    try:
        secret = await writer.cluster.get(path)
    except ObjectNotFound:
        ring = rotated(None, now)
        request = ApiRequest("POST", SECRET.path(namespace), _manifest(namespace, ring, {}))
        await writer.write(SECRET, "create", request, Urgency.CHILD)
        return ring
    before = decode(secret.get("data") or {})
    ring = rotated(before, now)
    if before is None or kids(ring.keys) != kids(before.keys):
        version = {"resourceVersion": secret["metadata"]["resourceVersion"]}
        request = ApiRequest("PUT", path, _manifest(namespace, ring, version))
        await writer.write(SECRET, "update", request, Urgency.CHILD)
    return ring


def kids(keys: Iterable[SigningKey]) -> list[str]:
    """Return the ids of keys, in order."""
    return [key.signer.kid for key in keys]


def _manifest(namespace: str, ring: SigningKeys, more: Mapping[str, str]) -> Mapping[str, Any]:
    labels = {names.LABEL_APP_PART_OF: "penstock", names.LABEL_APP_MANAGED_BY: "penstock-operator"}
    metadata = {"name": names.SIGNING_KEY_SECRET, "namespace": namespace, "labels": labels, **more}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "data": encode(ring),
    }
