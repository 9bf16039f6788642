"""The API keys of clients: a JSON file, mounted from a Secret, that is read again when it changes.

The runtime and the batch service authenticate clients with it.
"""

import hashlib
import hmac
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, ValidationError, model_validator

from penstock_api.base import WireModel

log = logging.getLogger(__name__)


class ApiKey(WireModel):
    """One key and its grants."""

    key: Annotated[str, Field(min_length=8, max_length=512, repr=False)]
    tenant: Annotated[str, Field(min_length=1, max_length=128)]
    """Owner of the key; several keys may have the same tenant."""
    best_priority: Annotated[int, Field(ge=1, le=10)] | None = None
    """The highest class (1 is the highest) of requests with this key, and their default.

    None: requests may have any class; their default is none, which ranks as the lowest.
    """
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """None: no limit of the key's own."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Maximum tokens of one answer."""


class ApiKeys(WireModel):
    """The content of the file."""

    keys: Annotated[tuple[ApiKey, ...], Field(max_length=10_000)]

    @model_validator(mode="after")
    def _are_distinct(self) -> Self:
        seen = dict[str, int]()
        for index, entry in enumerate(self.keys):
            first = seen.setdefault(entry.key, index)
            if first != index:
                raise ValueError(f"keys[{first}] and keys[{index}] have the same key: remove one")
        return self


class ApiKeysUnusable(ValueError):
    """The file of keys is missing or invalid; the message contains no key."""


class ApiKeyRing:
    """The keys as last read; an invalid file is logged and leaves them unchanged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_digest: dict[bytes, ApiKey] = {}
        self._read: bytes | None = None

    def read(self) -> None:
        """Read the file if it has changed; blocks on the disk. Before the first successful read every key is unknown.

        Raises:
            ApiKeysUnusable: it cannot be read, or is invalid; the keys are unchanged.
        """
        try:
            content = self._path.read_bytes()
            if content == self._read:
                return
            parsed = ApiKeys.model_validate_json(content)
        except (OSError, ValidationError) as error:
            reason = error if isinstance(error, OSError) else error.errors()[0]["msg"]
            raise ApiKeysUnusable(
                f"the API keys in {self._path} cannot be used: {reason}"
            ) from None
        if unknown := unknown_fields(content):
            log.warning(
                "the API keys in %s have unknown fields, which are ignored: %s: correct or remove them",
                self._path,
                ", ".join(unknown),
            )
        self._read = content
        self._by_digest = {digest(key.key): key for key in parsed.keys}
        log.info("API keys read", extra={"keys": len(self._by_digest)})

    def reload(self) -> None:
        """As `read`, but an error is logged."""
        try:
            self.read()
        except ApiKeysUnusable as error:
            log.error("%s", error)

    def of_tenant(self, tenant: str, preferred_digest: str) -> ApiKey | None:
        """Return the key of `tenant` with that digest, in hex, or another of its keys; None if it has none."""
        preferred = self._by_digest.get(bytes.fromhex(preferred_digest))
        if preferred is not None and preferred.tenant == tenant:
            return preferred
        return next((key for key in self._by_digest.values() if key.tenant == tenant), None)

    @property
    def loaded(self) -> bool:
        """Whether the file was read once: until then the ring knows no key, whatever the file has."""
        return self._read is not None

    @property
    def keys(self) -> tuple[ApiKey, ...]:
        """The keys as last read."""
        return tuple(self._by_digest.values())

    def find(self, presented: str) -> ApiKey | None:
        """Return the presented key; the time of the search reveals nothing about the keys.

        The table is searched by digest, whose prefix a client cannot choose, and the digests are then
        compared in constant time.
        """
        presented_digest = digest(presented)
        key = self._by_digest.get(presented_digest)
        if key is None or not hmac.compare_digest(digest(key.key), presented_digest):
            return None
        return key


def unknown_fields(content: bytes) -> list[str]:
    """Return the names of the fields of a valid file that `ApiKeys` does not have."""
    try:
        ApiKeys.model_validate_json(content, extra="forbid")
    except ValidationError as error:
        errors = error.errors(include_input=False)
        return sorted({str(each["loc"][-1]) for each in errors})
    return []


def presented_key(headers: Mapping[str, str]) -> str:
    """Return the key of `Authorization: Bearer` or `X-Api-Key`; empty if there is none."""
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else headers.get("X-Api-Key", "")


def digest(key: str) -> bytes:
    """Return the SHA-256 of a key; bytes that are not UTF-8 enter it as aiohttp decodes them from a header."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
