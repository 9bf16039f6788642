"""Whether a live object already is what is wanted, as the API server would see it.

The API server adds defaults, drops empty values and rewrites quantities (`1000m` -> `1`), so equality is
"every wanted value is there", not "the same text". What others added beside it is theirs.

Hashes of manifests: stable across processes and key order.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

_QUANTITIES = frozenset({"limits", "requests", "sizeLimit", "divisor"})
_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12),
    "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip
_WHOLE = frozenset({"selector", "nodeSelector"})
"""Maps that narrow by every entry: one that somebody added is not beside ours, it changes ours."""
_KEYS = ("mountPath", "containerPort", "port", "uid", "name")
"""Merge keys of the lists that builders write, the one that tells items apart first."""


def covers(live: Any, wanted: Any, field: str = "") -> bool:
    """Tell whether `live` holds everything that `wanted` says; `field` is the key that led here."""
    if live == wanted:
        return True
    if field in _WHOLE:
        return not live and not wanted
    if isinstance(wanted, dict):
        return _covers_map(live if isinstance(live, dict) else {}, wanted, field)
    if isinstance(wanted, list | tuple):
        return _covers_list(live if isinstance(live, list | tuple) else (), wanted)
    if field in _QUANTITIES:
        return _quantity(live) == _quantity(wanted)
    return live is None and wanted == ""


def _covers_map(live: Mapping[str, Any], wanted: Mapping[str, Any], field: str) -> bool:
    inherited = field if field in _QUANTITIES else None
    return all(covers(live.get(key), value, inherited or key) for key, value in wanted.items())


def _covers_list(live: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """A keyed list may hold more than wanted; a plain one is compared item by item."""
    key = _merge_key(wanted)
    if key is None:
        return len(live) == len(wanted) and all(map(covers, live, wanted))
    held = {one.get(key): one for one in live if isinstance(one, dict)}
    return all(one[key] in held and covers(held[one[key]], one) for one in wanted)


def _merge_key(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(one, dict) for one in items):
        return None
    return next((key for key in _KEYS if all(key in one for one in items)), None)


def _quantity(value: Any) -> Decimal | str | None:
    """Return the number that a Kubernetes quantity stands for, or the value itself if it is none."""
    if value is None:
        return None
    text = str(value)
    number = text.rstrip("numkMGTPEi")
    try:
        return Decimal(number) * _SUFFIXES[text[len(number) :]]
    except (InvalidOperation, KeyError):
        return text


DIGITS = 10
"""Forty bits: collisions would have to happen within one pool's handful of revisions."""


def digest(value: object) -> str:
    """Return a short hex digest of any JSON value."""
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]
