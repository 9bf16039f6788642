"""Client of the Kubernetes API server: JSON requests and responses, typed errors.

`kubernetes.aio` loads and refreshes the credentials. Its own client is not used: objects here are plain JSON, and its
generic calls change between releases.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config
from msgspec import MsgspecError, Struct, field
from msgspec.json import Decoder

from penstock_operator.errors import (
    ClusterError,
    ObjectNotFound,
    OperatorConfigError,
    Unavailable,
    cluster_error,
)
from penstock_operator.kube.kinds import ResourceKind

log = logging.getLogger(__name__)

REQUEST_SECONDS = 15.0
RETRY_SECONDS = (0.2, 1.0)
"""Delays before the second and third attempts; after these the reconciler requeues with back-off."""
CONNECTIONS = 32
"""Maximum concurrent connections; more would only queue in the API server, after a TLS handshake each."""
KEEPALIVE_SECONDS = 60.0
"""Idle time before a connection closes; longer than the 30 s between reconciles of an idle pool."""
CHUNK = 500
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
IN_CLUSTER_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

Json = dict[str, Any]
_Prepared = tuple[str, str, dict[str, str], bytes | None]
"""(method, URL, headers with credentials, body)."""


class Listed(Struct, frozen=True):
    """UID and resourceVersion of a listed object."""

    uid: str
    version: str = field(name="resourceVersion")


class _Item(Struct):
    metadata: Listed


class _Rest(Struct):
    more: str = field(name="continue", default="")


class _Page(Struct):
    """One chunk of a list; the rest of each object's metadata, mostly `managedFields`, is not decoded."""

    metadata: _Rest
    items: list[_Item] | None = None


_PAGES = Decoder(_Page)


def in_cluster() -> bool:
    """Return whether this process runs in a pod with a service account."""
    return IN_CLUSTER_TOKEN.is_file()


async def connect() -> Configuration:
    """Return the in-cluster configuration if the pod has a service account, else that of the kubeconfig.

    Raises:
        OperatorConfigError: there is neither.
    """
    configuration = Configuration()
    try:
        if in_cluster():
            load_incluster_config(client_configuration=configuration)
        else:
            await load_kube_config(client_configuration=configuration, persist_config=False)
    except ConfigException as error:
        raise OperatorConfigError(
            f"no service account and no kubeconfig for the API server: {error}"
        ) from error
    return configuration


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API server."""

    method: str
    path: str
    body: object | None = None
    query: Mapping[str, str] = dataclass_field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = "application/json"

    @property
    def namespace(self) -> str | None:
        """The namespace of the object; None: it is cluster-scoped."""
        _, separator, rest = self.path.partition("/namespaces/")
        return rest.partition("/")[0] if separator and "/" in rest else None


class ApiClient:
    """Client of one API server; methods raise subclasses of `ClusterError`."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._session = _session(configuration)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def get(self, path: str) -> Json:
        """Return the object at `path`."""
        return await self.send(ApiRequest("GET", path))

    async def list_metadata(
        self, kind: ResourceKind, namespace: str | None = None
    ) -> AsyncIterator[Listed]:
        """Yield every object of a kind, in one namespace or all, from a chunked list.

        If its token expires, objects are yielded again from a list in one piece.
        """
        whole = {"labelSelector": kind.label_selector} if kind.label_selector else {}
        query = {**whole, "limit": str(CHUNK)}
        while True:
            request = ApiRequest("GET", kind.path(namespace), query=query, accept=METADATA_ONLY)
            try:
                page = _page(*await self._answer(request))
            except ObjectNotFound as error:
                if error.status != HTTPStatus.GONE or query == whole:
                    raise
                query = whole
                continue
            for item in page.items or ():
                yield item.metadata
            if not page.metadata.more:
                return
            query = {**query, "continue": page.metadata.more}

    async def send(self, request: ApiRequest, permit: Callable[[], None] | None = None) -> Json:
        """Return the JSON response; 429, 5xx and lost connections are retried twice.

        `permit` is called right before each attempt and may raise. A retried POST may get a 409 that its own first
        attempt caused; callers handle a 409 by reading the object again.
        """
        return _json(*await self._answer(request, permit))

    async def _answer(
        self, request: ApiRequest, permit: Callable[[], None] | None = None
    ) -> tuple[int, bytes]:
        for pause in (*RETRY_SECONDS, None):
            prepared = await self._prepared(request)
            if permit is not None:
                permit()
            try:
                return await self._once(prepared)
            except Unavailable as error:
                if pause is None:
                    raise
                log.debug("%s %s: %s; retrying in %s s", request.method, request.path, error, pause)
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def _prepared(self, request: ApiRequest) -> _Prepared:
        query = f"?{urlencode(request.query)}" if request.query else ""
        headers = {"Accept": request.accept, "Content-Type": request.content_type}
        known = await self._configuration.auth_settings()
        if "BearerToken" in known:
            headers["Authorization"] = known["BearerToken"]["value"]
        body = None if request.body is None else json.dumps(request.body).encode()
        return request.method, self._configuration.host + request.path + query, headers, body

    async def _once(self, prepared: _Prepared) -> tuple[int, bytes]:
        method, url, headers, body = prepared
        try:
            async with self._session.request(method, url, headers=headers, data=body) as answer:
                data = await answer.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unavailable(0, "Unreachable", f"{type(error).__name__}: {error}") from error
        if not 200 <= answer.status <= 299:
            raise cluster_error(answer.status, data)
        return answer.status, data


def _session(configuration: Configuration) -> aiohttp.ClientSession:
    """Return a session with the configuration's certificates; proxies in the environment are ignored."""
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=CONNECTIONS, keepalive_timeout=KEEPALIVE_SECONDS, ssl=context
        ),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        headers={"User-Agent": "penstock-operator"},
        trust_env=False,
    )


def _json(status: int, data: bytes) -> Json:
    try:
        value = json.loads(data)
    except ValueError as error:
        raise ClusterError(status, "NotJson", str(error)) from error
    if not isinstance(value, dict):
        raise ClusterError(status, "NotAnObject", "the response is not a JSON object")
    return value


def _page(status: int, data: bytes) -> _Page:
    try:
        return _PAGES.decode(data)
    except MsgspecError as error:
        raise ClusterError(status, "NotAList", str(error)) from error
