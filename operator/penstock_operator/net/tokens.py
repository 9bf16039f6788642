"""Control tokens: short-lived JWTs that authenticate the operator's calls to pods (docs/design/design.md#control-tokens).

JSON Web Tokens (RFC 7519) with EdDSA (RFC 8037). `aud` is the pod's UID, so that a token for one pod is invalid at another;
`exp` is 30 s ahead; `generation` is that of the limits in the same call; `jti` is unique, and a pod accepts each once.
"""

import secrets
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

TOKEN_SECONDS = 30


class BadSigningKey(ValueError):
    """The stored signing key is unusable; the message contains the cause."""


@dataclass(frozen=True, slots=True)
class Signer:
    """The operator's signing key."""

    key: Ed25519PrivateKey

    @classmethod
    def generate(cls) -> Self:
        """Return a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> Self:
        """Return the key of an unencrypted PKCS#8 PEM. Raises `BadSigningKey`."""
        try:
            key = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise BadSigningKey(
                f"the signing key is not an unencrypted PKCS#8 PEM: {error}"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise BadSigningKey(f"the signing key must be Ed25519, got {type(key).__name__}")
        return cls(key)

    def pem(self) -> bytes:
        """Return the key as unencrypted PKCS#8 PEM, for the Secret in the operator's own namespace."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    @property
    def kid(self) -> str:
        """Return the key's id: the first 16 hex digits of the public key's SHA-256."""
        return sha256(self._raw_public()).hexdigest()[:16]

    def public_key(self) -> str:
        """Return the raw 32-byte public key in base64, as in `Observed.control_keys`."""
        return b64encode(self._raw_public()).decode()

    def token(self, pod_uid: str, generation: int, now: float) -> str:
        """Return a token for one call to one pod; `now` in Unix seconds."""
        claims = {
            "aud": pod_uid,
            "exp": int(now) + TOKEN_SECONDS,
            "generation": generation,
            "jti": secrets.token_hex(16),
        }
        return jwt.encode(claims, self.key, algorithm="EdDSA", headers={"kid": self.kid})

    def _raw_public(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
