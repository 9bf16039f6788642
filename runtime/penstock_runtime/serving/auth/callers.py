"""`Callers`: the caller of a request, by its headers. A header may lower the grants of a key, never raise them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final

from msgspec.structs import replace as replace_fields

from penstock_api import names
from penstock_api.api_keys import ApiKey, ApiKeyRing, presented_key
from penstock_runtime.config import Network
from penstock_runtime.errors import BadInput, RateExceeded, Unauthenticated
from penstock_runtime.request import Request
from penstock_runtime.serving.auth.rate_limit import RateBucket

HEADER_PRIORITY: Final = "X-Penstock-Priority"
RELOAD_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Caller:
    """The identity and the grants of a client."""

    tenant: str = ""
    best_priority: int | None = None
    """The highest class granted, and the default; None: any class, and no default."""
    priority: int = 0
    """Class of a trusted header; 0: none."""
    max_tokens: int | None = None

    def granted_priority(self, requested: int | None) -> int:
        """Return the class of a request whose body sets `requested` (0 or None: unset).

        Classes count from 1, the highest; 0 is none, which disciplines rank as the lowest.
        """
        return max(self.priority, requested or 0, self.best_priority or 0)

    def grant(self, request: Request) -> Request:
        """Return `request` with its granted class and its tenant."""
        return replace_fields(
            request, priority=self.granted_priority(request.priority), tenant=self.tenant
        )


ANYBODY: Final = Caller()


class Callers:
    """Identifies clients and limits the rate of each key; without keys, clients are identified by trusted proxies alone."""

    def __init__(
        self, ring: ApiKeyRing | None, trusted: tuple[Network, ...], now: Callable[[], float]
    ) -> None:
        self._ring = ring
        self._trusted = trusted
        self._now = now
        self._buckets: dict[tuple[str, float], RateBucket] = {}

    @property
    def open(self) -> bool:
        """Whether requests are not authenticated and their headers are not trusted."""
        return self._ring is None and not self._trusted

    def read_keys(self) -> None:
        """Read the keys; blocks on the disk.

        Raises:
            ApiKeysUnusable: the file is missing or invalid: the pod would reject every client.
        """
        if self._ring is not None:
            self._ring.read()

    async def watch(self, every_seconds: float = RELOAD_SECONDS) -> None:
        """Reload the keys periodically, off the event loop; returns at once without keys."""
        while self._ring is not None:
            await asyncio.to_thread(self._ring.reload)
            await asyncio.sleep(every_seconds)

    def identify(self, headers: Mapping[str, str], remote: str | None) -> Caller:
        """Return the caller of a request, and count the request against the rate of its key.

        Raises:
            Unauthenticated: the pool requires a key and the request has no valid one.
            RateExceeded: the key exceeds its rate.
            BadInput: a trusted header is repeated, not a number, or not UTF-8.
        """
        if self._ring is not None:
            return self._by_key(self._ring, headers)
        if not self._is_trusted(remote):
            return ANYBODY
        return _lowered(Caller(tenant=_tenant(headers)), headers)

    def _by_key(self, ring: ApiKeyRing, headers: Mapping[str, str]) -> Caller:
        key = ring.find(presented_key(headers))
        if key is None:
            raise Unauthenticated(
                "send a valid API key in Authorization: Bearer, or in X-Api-Key",
                field="Authorization",
            )
        self._spend(key)
        caller = Caller(key.tenant, key.best_priority, max_tokens=key.max_tokens)
        return _lowered(caller, headers)

    def _spend(self, key: ApiKey) -> None:
        rate = key.requests_per_minute
        if rate is None:
            return
        now = self._now()
        bucket = self._buckets.setdefault((key.key, rate), RateBucket(rate, now))
        wait = bucket.take(now)
        if wait > 0:
            raise RateExceeded(
                f"this key may send {rate:g} requests a minute: send fewer",
                retry_after_seconds=wait,
            )

    def _is_trusted(self, remote: str | None) -> bool:
        if not self._trusted or remote is None:
            return False
        address = ip_address(remote.partition("%")[0])
        mapped = getattr(address, "ipv4_mapped", None) or address
        return any(mapped in network for network in self._trusted)


def _only(headers: Mapping[str, str], name: str) -> str | None:
    """Return the value of a trusted header; None: it is absent.

    Raises:
        BadInput: it is repeated with other values, so that one value may be the client's own and another that of its proxy.
    """
    values = [value for field, value in headers.items() if field.lower() == name.lower()]
    if len(set(values)) > 1:
        raise BadInput(
            f"{name} has {len(values)} values, {values[0][:40]!a} and {values[1][:40]!a}: send it once; a proxy"
            " overwrites the client's",
            field=name,
        )
    return values[0] if values else None


def _tenant(headers: Mapping[str, str]) -> str:
    tenant = (_only(headers, names.HEADER_TENANT) or "")[:128]
    try:
        tenant.encode()
    except UnicodeEncodeError as error:
        raise BadInput(
            f"{names.HEADER_TENANT} {tenant[:40]!a} must be UTF-8", field=names.HEADER_TENANT
        ) from error
    return tenant


def _lowered(caller: Caller, headers: Mapping[str, str]) -> Caller:
    text = _only(headers, HEADER_PRIORITY)
    if text is None:
        return caller
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise BadInput(
            f"{HEADER_PRIORITY} {text[:40]!r} must be an integer from 1 (highest)",
            field=HEADER_PRIORITY,
        )
    return replace(caller, priority=int(text))
