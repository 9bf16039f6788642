"""`TenantAuthenticator`: the tenant of a request, by its API key."""

import asyncio
from dataclasses import dataclass
from typing import Final

from aiohttp import web

from penstock_api.api_keys import ApiKeyRing, digest, presented_key
from penstock_batches.errors import ApiError

RELOAD_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class TenantCaller:
    """The owner of files and batches, and the digest of the key, in hex."""

    tenant: str = ""
    key_digest: str = ""


class TenantAuthenticator:
    """Authenticates clients as the pools do; without keys, all clients are one tenant."""

    def __init__(self, ring: ApiKeyRing | None) -> None:
        self._ring = ring
        self._known = asyncio.Event()
        if ring is None:
            self._known.set()

    @property
    def ready(self) -> bool:
        """Whether the keys were read, or clients need none."""
        return self._known.is_set()

    async def known(self) -> None:
        """Wait until the keys were read."""
        await self._known.wait()

    async def watch(self) -> None:
        """Read the keys again and again; returns at once without keys."""
        while self._ring is not None:
            await asyncio.to_thread(self._ring.reload)
            if self._ring.loaded:
                self._known.set()
            await asyncio.sleep(RELOAD_SECONDS)

    def identify(self, request: web.Request) -> TenantCaller:
        """Return the caller of a request.

        Raises:
            ApiError: clients need a key, and the request has no valid one.
        """
        if self._ring is None:
            return TenantCaller()
        presented = presented_key(request.headers)
        key = self._ring.find(presented)
        if key is None:
            message = "Incorrect API key provided: send a valid one in Authorization: Bearer, or in X-Api-Key."
            raise ApiError(401, message, code="invalid_api_key")
        return TenantCaller(key.tenant, digest(presented).hex())
