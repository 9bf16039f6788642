"""Lists and watches of the API server, decoded to the parts of objects that routing reads."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final, Generic, TypeVar

import aiohttp
import msgspec

from penstock_gateway.config import GatewaySettings
from penstock_gateway.errors import GatewayConfigError, VersionExpired, WatchError
from penstock_gateway.objects import Metadata, WatchedPod, WatchedService

REQUEST_SECONDS: Final = 15.0
WATCH_SECONDS: Final = 60
"""Length of a watch, which then opens again where it ended: a connection that died unnoticed costs no more."""
SILENT_SECONDS: Final = 75.0
CHUNK: Final = 500
MAX_EVENT_BYTES: Final = 2**24
"""Largest line of a watch; an object in etcd has at most 1.5 MiB."""

T = TypeVar("T", WatchedService, WatchedPod)


@dataclass(frozen=True, slots=True)
class WatchedResource(Generic[T]):
    """A kind of objects, and the label that narrows the list."""

    plural: str
    kind: type[T]
    label_selector: str


class _ListMetadata(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion", default="")
    more: str = msgspec.field(name="continue", default="")


class _ListPage(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] | None = None


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    code: int = 0
    message: str = ""


class _Bookmark(msgspec.Struct):
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """An object was added or modified."""

    object: T


@dataclass(frozen=True, slots=True)
class Deleted(Generic[T]):
    """An object was deleted."""

    object: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing changed up to this resourceVersion."""

    version: str


_PAGES: Final = msgspec.json.Decoder(_ListPage)
_EVENTS: Final = msgspec.json.Decoder(_Event)
_STATUSES: Final = msgspec.json.Decoder(_Status)
_BOOKMARKS: Final = msgspec.json.Decoder(_Bookmark)


class ApiServer:
    """Client of the API server for one namespace; methods raise `WatchError`."""

    def __init__(self, settings: GatewaySettings) -> None:
        self._root = f"{_url(settings)}/api/v1/namespaces/{settings.namespace}"
        self._token = Path(settings.token_file)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=_tls(settings)),
            headers={"User-Agent": "penstock-gateway", "Accept": "application/json"},
            read_bufsize=MAX_EVENT_BYTES,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def list(self, resource: WatchedResource[T]) -> tuple[list[T], str]:
        """Return every object of a kind, and the list's resourceVersion."""
        query = {"labelSelector": resource.label_selector, "limit": str(CHUNK)}
        objects = msgspec.json.Decoder(resource.kind)
        items: list[T] = []
        while True:
            async with self._get(resource, query, REQUEST_SECONDS) as answer:
                page = _PAGES.decode(await answer.read())
                items += map(objects.decode, page.items or ())
            if not page.metadata.more:
                return items, page.metadata.version
            query["continue"] = page.metadata.more

    async def watch(
        self, resource: WatchedResource[T], version: str
    ) -> AsyncGenerator[Changed[T] | Deleted[T] | Bookmark, None]:
        """Yield the changes after `version`; returns when the API server ends the watch."""
        query = {
            "labelSelector": resource.label_selector,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        objects = msgspec.json.Decoder(resource.kind)
        async with self._get(resource, query, SILENT_SECONDS) as answer:
            async for line in answer.content:
                event = _EVENTS.decode(line)
                if event.type == "ERROR":
                    status = _STATUSES.decode(event.object)
                    raise _failure(status.code, status.message)
                if event.type == "BOOKMARK":
                    yield Bookmark(_BOOKMARKS.decode(event.object).metadata.version)
                else:
                    change = Deleted if event.type == "DELETED" else Changed
                    yield change(objects.decode(event.object))

    @asynccontextmanager
    async def _get(
        self, resource: WatchedResource[T], query: Mapping[str, str], silent_seconds: float
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        limits = aiohttp.ClientTimeout(sock_connect=REQUEST_SECONDS, sock_read=silent_seconds)
        url = f"{self._root}/{resource.plural}"
        try:
            async with self._session.get(
                url, params=query, headers=self._credentials(), timeout=limits
            ) as answer:
                if answer.status != HTTPStatus.OK:
                    raise _failure(answer.status, (await answer.text())[:500])
                yield answer
        except (aiohttp.ClientError, msgspec.MsgspecError, OSError, ValueError) as error:
            raise WatchError(f"{resource.plural}: {type(error).__name__}: {error}") from error

    def _credentials(self) -> dict[str, str]:
        try:
            return {"Authorization": f"Bearer {self._token.read_text().strip()}"}
        except FileNotFoundError:
            return {}  # an API server that does not authenticate; any other answers 401


def _failure(status: int, message: str) -> WatchError:
    kind = VersionExpired if status == HTTPStatus.GONE else WatchError
    return kind(f"the API server answered {status}: {message}")


def _url(settings: GatewaySettings) -> str:
    if settings.api_server:
        return settings.api_server.rstrip("/")
    return "https://kubernetes.default.svc"


def _tls(settings: GatewaySettings) -> ssl.SSLContext | bool:
    if settings.api_server.startswith("http://"):
        return True
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise GatewayConfigError(
            f"PENSTOCK_CA_FILE {settings.ca_file!r} holds no CA of the API server: {error}"
        ) from error
