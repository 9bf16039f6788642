"""`Pools`: the URL of each model's pool, from the InferencePools of the namespace or from the settings."""

import asyncio
import logging
import ssl
from pathlib import Path
from typing import Final

import aiohttp
import msgspec

from penstock_api import names
from penstock_batches.config import BatchSettings, pool_urls
from penstock_batches.errors import BatchesConfigError

log = logging.getLogger(__name__)

LIST_SECONDS: Final = 15.0
"""Time between two lists: a new pool serves batches after it."""
TIMEOUT: Final = aiohttp.ClientTimeout(total=10)


class _Metadata(msgspec.Struct):
    name: str
    labels: dict[str, str] = {}


class _Model(msgspec.Struct):
    name: str | None = None


class _Spec(msgspec.Struct):
    model: _Model
    tls: object | None = None


class _Pool(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _List(msgspec.Struct):
    items: list[_Pool]


_LIST: Final = msgspec.json.Decoder(_List)


def urls_by_model(content: bytes, namespace: str) -> dict[str, str]:
    """Return the URL of each model in a list of InferencePools; of pools with the same model the first by name.

    The pools of variants are left out: clients use the pool that owns them.

    Raises:
        msgspec.MsgspecError: the content is not a list of InferencePools.
    """
    urls: dict[str, str] = {}
    for pool in sorted(_LIST.decode(content).items, key=lambda pool: pool.metadata.name):
        name = pool.metadata.name
        if names.LABEL_VARIANT_OF in pool.metadata.labels:
            continue
        url = names.service_url(name, namespace, secure=pool.spec.tls is not None)
        urls.setdefault(pool.spec.model.name or name, url)
    return urls


class Pools:
    """The pools as last listed; without the API server they stay as they are."""

    def __init__(self, settings: BatchSettings) -> None:
        self._settings = settings
        self._urls = pool_urls(settings.pools)
        self.listed = bool(self._urls)
        """Whether the pools are known; before it no batch is validated."""

    @property
    def models(self) -> tuple[str, ...]:
        """The models, by name."""
        return tuple(sorted(self._urls))

    def url(self, model: str) -> str | None:
        """Return the URL of a model's pool."""
        return self._urls.get(model)

    async def watch(self) -> None:
        """List the pools again and again; returns at once if the settings name them."""
        if self._settings.pools:
            return
        async with aiohttp.ClientSession(timeout=TIMEOUT) as session:
            while True:
                try:
                    content = await self._list(session)
                    self._urls = urls_by_model(content, self._settings.namespace)
                    self.listed = True
                except (aiohttp.ClientError, OSError, TimeoutError, msgspec.MsgspecError) as error:
                    log.warning("cannot list the pools, and keep those known: %s", error)
                await asyncio.sleep(LIST_SECONDS)

    async def _list(self, session: aiohttp.ClientSession) -> bytes:
        settings = self._settings
        token = await asyncio.to_thread(Path(settings.token_file).read_text, encoding="utf-8")
        server = settings.api_server or "https://kubernetes.default.svc"
        url = (
            f"{server}/apis/{names.API_VERSION}/namespaces/{settings.namespace}/{names.POOL_PLURAL}"
        )
        headers = {"Authorization": f"Bearer {token.strip()}"}
        trust = await asyncio.to_thread(trusted, settings.ca_file if url[:6] == "https:" else "")
        async with session.get(url, headers=headers, ssl=trust) as reply:
            reply.raise_for_status()
            return await reply.read()


def trusted(ca_file: str) -> ssl.SSLContext | bool:
    """Return the TLS context of clients that trust the CAs in a file; without a file, no verification.

    Raises:
        BatchesConfigError: the file has no CA certificates.
    """
    if not ca_file:
        return False
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise BatchesConfigError(f"{ca_file} has no CA certificates in PEM: {error}") from error
