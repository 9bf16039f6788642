"""Authentication of the control API: short-lived Ed25519 JWTs of the operator (docs/design/design.md#control-tokens).

PyJWT and cryptography (9 MiB) are imported where a pod has keys, at its start, so that no call waits for the import.
"""

import asyncio
import base64
import binascii
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock_runtime.errors import PenstockError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LEEWAY_SECONDS = 10
"""The largest allowed difference between the clocks of two nodes."""


class Unauthorized(PenstockError):
    """The token is missing, invalid, expired, or signed by an unknown key: 401."""


class Forbidden(PenstockError):
    """A valid token for another pod or another change: 403."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """The change that a valid token allows."""

    generation: object
    """Generation of the limits in the token."""
    anything: bool = False
    """Whether every change is allowed, because the pod requires no token."""

    def check(self, generation: int) -> None:
        """Check that the token is for the generation in a body.

        Raises:
            Forbidden: it is for another generation.
        """
        if not self.anything and self.generation != generation:
            raise Forbidden(
                f"the token is for generation {self.generation!r}, the body for {generation}:"
                " sign a token for this change"
            )


class TokenVerifier:
    """Verifies tokens by the public keys in a file that is read at each call, so that a new key works at once."""

    def __init__(
        self,
        keys_file: Path,
        pod_uid: str,
        clock: Callable[[], float] = time.time,
        *,
        insecure: bool = False,
    ) -> None:
        """`clock` returns Unix seconds; `insecure` requires no token."""
        self._keys_file = keys_file
        self._pod_uid = pod_uid
        self._clock = clock
        self._insecure = insecure
        self._used: dict[str, float] = {}
        """Ids of used tokens, and when each is removed: once the token has expired by every clock."""
        if keys_file.exists() and not insecure:
            import jwt  # noqa: F401, PLC0415 - at start, as the module says

    async def verify(self, authorization: str | None) -> TokenClaims:
        """Accept the token in the `Authorization` header of a control call once.

        Raises:
            Unauthorized: it is not a valid token of a known key, or was used before.
            Forbidden: it is addressed to another pod.
        """
        if self._insecure:
            return TokenClaims(None, anything=True)
        keys = await asyncio.to_thread(_read_keys, self._keys_file)
        claims = self._decode(authorization, keys)
        self._take(str(claims["jti"]), claims["exp"])
        return TokenClaims(claims.get("generation"))

    def _take(self, token_id: str, expires: object) -> None:
        if isinstance(expires, bool) or not isinstance(expires, int | float):
            raise Unauthorized("the token is invalid: its exp must be a number of Unix seconds")
        now, until = self._clock(), expires + LEEWAY_SECONDS
        if not now < until < float("inf"):
            raise Unauthorized(
                "the token has expired by this pod's clock: sign a new one, or correct the node's clock"
            )
        self._used = {used: expiry for used, expiry in self._used.items() if now < expiry}
        if token_id in self._used:
            raise Unauthorized("the token was used before: sign a new one for each call")
        self._used[token_id] = until

    def _decode(
        self, authorization: str | None, keys: "dict[str, Ed25519PublicKey]"
    ) -> dict[str, Any]:
        import jwt  # noqa: PLC0415

        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token or not self._pod_uid:
            raise Unauthorized("send the operator's token in Authorization: Bearer")
        try:
            key = keys.get(str(jwt.get_unverified_header(token).get("kid")))
            if key is None:
                raise Unauthorized(
                    "the token's key id is not among this pod's control keys: sign with a key of the keys file"
                )
            return jwt.decode(
                token,
                key,
                algorithms=["EdDSA"],
                audience=self._pod_uid,
                options={"require": ["exp", "aud", "jti"], "verify_exp": False},
            )
        except jwt.InvalidAudienceError as error:
            raise Forbidden(
                "the token is addressed to another pod: its aud must be this UID"
            ) from error
        except jwt.InvalidTokenError as error:
            raise Unauthorized(f"the token is invalid: {error}") from error


def _read_keys(path: Path) -> "dict[str, Ed25519PublicKey]":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PublicKey,
    )

    try:
        listed = json.loads(path.read_bytes())
        return {
            kid: Ed25519PublicKey.from_public_bytes(base64.b64decode(raw, validate=True))
            for kid, raw in listed.items()
        }
    except FileNotFoundError as error:
        raise Unauthorized(
            "this pod has no control keys, so every control call is rejected: mount the keys Secret"
        ) from error
    except (OSError, ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise Unauthorized(f"this pod's control keys cannot be read: {error}") from error
