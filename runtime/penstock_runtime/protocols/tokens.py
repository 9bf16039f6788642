"""Who may turn this pod's valves: short-lived Ed25519 JWTs of the operator (DESIGN, section 3).

PyJWT and cryptography, 9 MiB, are imported where a pod has keys: at its start, so that no call waits for it.
"""

import asyncio
import base64
import binascii
import json
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


class TokenVerifier:
    """Verifies tokens by the public keys in a file that is read at each call, so a new key counts at once."""

    def __init__(self, keys_file: Path, pod_uid: str, *, insecure: bool = False) -> None:
        self._keys_file = keys_file
        self._pod_uid = pod_uid
        self._insecure = insecure
        if keys_file.exists() and not insecure:
            import jwt  # noqa: F401, PLC0415 - as said above

    async def verify(self, authorization: str | None, generation: int | None = None) -> None:
        """Check the `Authorization` header of a control call; `generation` is that of the body, if any.

        Raises:
            Unauthorized: no valid token of a known key.
            Forbidden: it is addressed to another pod, or to another generation.
        """
        if self._insecure:
            return
        claims = self._decode(authorization, await asyncio.to_thread(_read_keys, self._keys_file))
        if generation is not None and claims.get("generation") != generation:
            raise Forbidden(
                f"the token is for generation {claims.get('generation')!r}, the body for {generation}:"
                " sign a token for this change"
            )

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
                leeway=LEEWAY_SECONDS,
                options={"require": ["exp", "aud"]},
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
