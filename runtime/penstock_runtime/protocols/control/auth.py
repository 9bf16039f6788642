"""Who may turn this pod's valves: short-lived Ed25519 JWTs of the operator (docs/design/design.md#control-tokens).

PyJWT and cryptography, 9 MiB, are imported where a pod has keys: at its start, so that no call waits for it.
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
"""How far the clocks of two nodes may differ."""


class Unauthorized(PenstockError):
    """The token is missing, broken, expired or of an unknown key: 401."""


class Forbidden(PenstockError):
    """A good token for another pod or another change: 403."""


@dataclass(frozen=True, slots=True)
class TokenClaims:
    """What a good token allows."""

    generation: object
    """The generation of the limits that it goes with, in the token's own word."""
    anything: bool = False
    """Of a pod that asks for no token."""

    def check(self, generation: int) -> None:
        """Check that the token is for the change that a body asks for.

        Raises:
            Forbidden: it is for another generation.
        """
        if not self.anything and self.generation != generation:
            raise Forbidden(
                f"the token is for generation {self.generation!r}, the body for {generation}:"
                " sign a token for this change"
            )


class TokenVerifier:
    """Verifies tokens by the public keys in a file that is read at each call, so a new key counts at once."""

    def __init__(
        self,
        keys_file: Path,
        pod_uid: str,
        clock: Callable[[], float] = time.time,
        *,
        insecure: bool = False,
    ) -> None:
        """`clock` gives Unix seconds; `insecure` asks for no token at all."""
        self._keys_file = keys_file
        self._pod_uid = pod_uid
        self._clock = clock
        self._insecure = insecure
        self._used: dict[str, float] = {}
        """Ids of the tokens that were taken, and when each is forgotten: when it has expired for good."""
        if keys_file.exists() and not insecure:
            import jwt  # noqa: F401, PLC0415 - as said above

    async def verify(self, authorization: str | None) -> TokenClaims:
        """Take the token in the `Authorization` header of a control call, this once.

        Raises:
            Unauthorized: no valid token of a known key, or one that was taken before.
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
            raise Unauthorized("the token is not valid: its exp must be a number of Unix seconds")
        now, until = self._clock(), expires + LEEWAY_SECONDS
        if not now < until < float("inf"):
            raise Unauthorized(
                "the token has expired by this pod's clock: sign a new one, or set the node's clock right"
            )
        self._used = {one: last for one, last in self._used.items() if now < last}
        if token_id in self._used:
            raise Unauthorized("the token was used before: sign one for each call")
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
                raise Unauthorized("the token's key id is not among this pod's control keys")
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
            raise Unauthorized(f"the token is not valid: {error}") from error


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
        raise Unauthorized("this pod has no control keys: nobody may control it") from error
    except (OSError, ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise Unauthorized(f"this pod's control keys cannot be read: {error}") from error
