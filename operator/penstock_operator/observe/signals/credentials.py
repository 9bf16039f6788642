"""Credentials for Prometheus: certificates, tokens and headers, from objects in the operator's own namespace.

Read again every minute, so that a rotated token or certificate needs no restart. An unreadable object fails the round,
with its name in the message; secret values are never in a message or log.
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
CACHE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """URL, headers and TLS context of one server; has no repr, because it contains secrets."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    """TLS context; None: the system's CAs."""


class CredentialsCache:
    """Reads and caches the credentials of all servers."""

    def __init__(self, cluster: ApiClient, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._cache: dict[MetricsServer, tuple[float, Credentials]] = {}

    async def of(self, server: MetricsServer) -> Credentials:
        """Return the credentials of `server`. Raises `CallFailed` with the missing object."""
        if server.ca is None and server.credentials is None:
            return plain_access(server)
        now = time.monotonic()
        read_at, credentials = self._cache.get(server, (0.0, None))
        if credentials is None or now - read_at >= CACHE_SECONDS:
            credentials = await self._read(server)
            self._cache[server] = (now, credentials)
        return credentials

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
                f"ConfigMap {ca.name} in namespace {self._namespace} has no key {ca.key}: add it"
            )
        return str(data[ca.key])

    async def _authorization(self, name: str) -> str:
        return authorization(name, await self._data(SECRET, name))

    async def _data(self, kind: ResourceKind, name: str) -> Mapping[str, Any]:
        try:
            obj = await self._cluster.get(kind.path(self._namespace, name))
        except ClusterError as error:
            raise CallFailed(
                f"{kind.kind} {name} in namespace {self._namespace} cannot be read ({error.reason}): create it, and set its"
                " name in the chart's prometheus values"
            ) from error
        return obj.get("data") or {}


async def plain(server: MetricsServer) -> Credentials:
    """Return the credentials of a server that needs no Secret or ConfigMap."""
    return plain_access(server)


def plain_access(server: MetricsServer) -> Credentials:
    """Return credentials with the URL and headers alone."""
    return Credentials(server.url, dict(server.headers))


def authorization(name: str, data: Mapping[str, Any]) -> str:
    """Return the `Authorization` header for a Secret's data. Raises `CallFailed`."""
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
    raise CallFailed(
        f"Secret {name} has neither the key token nor the keys username and password: add one or the others"
    )


def _decoded(name: str, key: str, value: str) -> str:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise CallFailed(
            f"Secret {name}: key {key} is not base64-encoded UTF-8 text: store it again"
        ) from error
    if not text.strip().isprintable():
        raise CallFailed(
            f"Secret {name}: key {key} contains characters that are not allowed in a header: store it again"
        )
    return text


def _tls(ca: KeyOf, certificates: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise CallFailed(
            f"ConfigMap {ca.name}: key {ca.key} contains no PEM certificate"
        ) from error
