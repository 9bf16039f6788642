"""How a Prometheus is asked: its certificates, credentials and headers, read from the operator's own namespace.

Read again every minute, so that a rotated token or certificate needs no restart. What cannot be read is the
round's failure, in words that name the object; a value is in no message and in no log.
"""

import base64
import binascii
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock_operator.decide.spec.prometheus import KeyOf, MetricsServer
from penstock_operator.errors import ClusterError
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.kinds import CONFIG_MAP, ResourceKind
from penstock_operator.net.http import CallFailed

SECRET = ResourceKind("Secret", "", "v1", "secrets")
KEPT_SECONDS = 60.0


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """Everything that a question to one server needs; it holds secrets, so it is never shown."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    """None: the system's certificates, where the URL is https at all."""


class CredentialsCache:
    """The accesses of all servers, by reading what they name."""

    def __init__(self, cluster: ApiClient, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._kept: dict[MetricsServer, tuple[float, Credentials]] = {}

    async def of(self, server: MetricsServer) -> Credentials:
        """Return how to ask `server`. Raises `CallFailed`, naming what is missing."""
        if server.ca is None and server.credentials is None:
            return plain_access(server)
        now = time.monotonic()
        read_at, kept = self._kept.get(server, (0.0, None))
        if kept is None or now - read_at >= KEPT_SECONDS:
            kept = await self._read(server)
            self._kept[server] = (now, kept)
        return kept

    async def _read(self, server: MetricsServer) -> Credentials:
        tls = None if server.ca is None else _tls(server.ca, await self._certificates(server.ca))
        headers = dict(server.headers)
        if server.credentials is not None:
            headers["Authorization"] = await self._authorization(server.credentials)
        return Credentials(server.url, headers, tls)

    async def _certificates(self, ca: KeyOf) -> str:
        data = await self._data(CONFIG_MAP, ca.name)
        if ca.key not in data:
            raise CallFailed(
                f"ConfigMap {ca.name} of {self._namespace} has no key {ca.key}: add it"
            )
        return str(data[ca.key])

    async def _authorization(self, name: str) -> str:
        return authorization(name, await self._data(SECRET, name))

    async def _data(self, kind: ResourceKind, name: str) -> Mapping[str, Any]:
        try:
            held = await self._cluster.get(kind.path(self._namespace, name))
        except ClusterError as error:
            raise CallFailed(
                f"{kind.kind} {name} of {self._namespace} cannot be read ({error.reason}): create it, and name it"
                " in the chart's prometheus values"
            ) from error
        return held.get("data") or {}


async def plain(server: MetricsServer) -> Credentials:
    """Return how to ask a server that needs nothing from the cluster."""
    return plain_access(server)


def plain_access(server: MetricsServer) -> Credentials:
    """Return how to ask a server by its URL and headers alone."""
    return Credentials(server.url, dict(server.headers))


def authorization(name: str, data: Mapping[str, Any]) -> str:
    """Return the header's value for a Secret's data. Raises `CallFailed`."""
    values = {
        key: _decoded(name, key, data[key])
        for key in ("token", "username", "password")
        if key in data
    }
    if "token" in values:
        return f"Bearer {values['token'].strip()}"
    if values.keys() >= {"username", "password"}:
        pair = f"{values['username']}:{values['password']}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    raise CallFailed(f"Secret {name} has neither a token nor a username and a password: add them")


def _decoded(name: str, key: str, value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CallFailed(f"Secret {name}: key {key} is no text: write it anew") from error
    if not text.strip().isprintable():
        raise CallFailed(f"Secret {name}: key {key} holds what no header may: write it anew")
    return text


def _tls(ca: KeyOf, certificates: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise CallFailed(f"ConfigMap {ca.name}: key {ca.key} holds no PEM certificate") from error
