"""The API keys of a pool: a JSON file, mounted from a Secret, that is read again when it changes."""

import hashlib
import hmac
import logging
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from penstock_api.base import WireModel

log = logging.getLogger(__name__)


class ApiKey(WireModel):
    """One key and what its holder may do."""

    key: Annotated[str, Field(min_length=8, max_length=512, repr=False)]
    tenant: Annotated[str, Field(min_length=1, max_length=128)]
    """Who pays; several keys may have one tenant."""
    best_priority: Annotated[int, Field(ge=1, le=10)] | None = None
    """The highest class (1 is the highest) that a request with this key can have, and what it has unasked.

    None: it can have any, and has none unasked, which ranks as the lowest.
    """
    requests_per_minute: Annotated[float, Field(gt=0)] | None = None
    """None: as many as the pool bears."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """The most tokens one answer may have."""


class ApiKeys(WireModel):
    """The file."""

    keys: Annotated[tuple[ApiKey, ...], Field(max_length=10_000)]


class ApiKeyRing:
    """The keys as last read. A file that cannot be used keeps the former keys, and is logged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_digest: dict[bytes, ApiKey] = {}
        self._read: bytes | None = None

    def reload(self) -> None:
        """Read the file again; blocks on the disk. Before the first good reading nobody holds a key."""
        try:
            content = self._path.read_bytes()
            if content == self._read:
                return
            held = ApiKeys.model_validate_json(content)
        except (OSError, ValidationError) as error:
            reason = error if isinstance(error, OSError) else error.errors()[0]["msg"]
            log.error("the API keys in %s cannot be used: %s", self._path, reason)
            return
        self._read = content
        self._by_digest = {digest(one.key): one for one in held.keys}
        log.info("API keys read", extra={"keys": len(self._by_digest)})

    def find(self, presented: str) -> ApiKey | None:
        """Return the key that was presented; the time it takes tells nothing of the keys.

        The table is searched by digest, whose beginning nobody can choose, and the digests are then
        compared in constant time.
        """
        asked = digest(presented)
        found = self._by_digest.get(asked)
        if found is None or not hmac.compare_digest(digest(found.key), asked):
            return None
        return found


def digest(key: str) -> bytes:
    """Return the SHA-256 of a key; bytes that are no UTF-8 are in it as aiohttp reads them from a header."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()
