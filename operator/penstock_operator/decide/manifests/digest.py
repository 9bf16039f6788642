"""Hashes of manifests: stable across processes and key order."""

import hashlib
import json

DIGITS = 10
"""Forty bits: collisions would have to happen within one pool's handful of revisions."""


def digest(value: object) -> str:
    """Return a short hex digest of any JSON value."""
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]
