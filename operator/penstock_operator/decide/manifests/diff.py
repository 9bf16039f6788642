"""Comparison of a live object with its desired manifest, and hashes of manifests.

The API server adds defaults, drops empty values and rewrites quantities (`1000m` -> `1`), so an object matches if it
has every desired value. Values that other writers added stay theirs. Hashes do not depend on key order.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
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
"""Maps that every entry narrows: an entry that another writer adds changes the meaning of the operator's entries."""
_KEYS = ("mountPath", "containerPort", "port", "uid", "name")
"""Merge keys of the lists that builders write, the most specific first."""


def covers(live: Any, desired: Any, field: str = "") -> bool:
    """Return whether `live` has every value of `desired`; `field` is the key of both."""
    if live == desired:
        return True
    if field in _WHOLE:
        return not live and not desired
    if isinstance(desired, dict):
        return _covers_map(live if isinstance(live, dict) else {}, desired, field)
    if isinstance(desired, list | tuple):
        return _covers_list(live if isinstance(live, list | tuple) else (), desired)
    if field in _QUANTITIES:
        return _quantity(live) == _quantity(desired)
    return live is None and desired == ""


def _covers_map(live: Mapping[str, Any], desired: Mapping[str, Any], field: str) -> bool:
    inherited = field if field in _QUANTITIES else None
    return all(covers(live.get(key), value, inherited or key) for key, value in desired.items())


def _covers_list(live: Sequence[Any], desired: Sequence[Any]) -> bool:
    """Compare lists: one with a merge key may have further items, a plain one is compared item by item."""
    key = _merge_key(desired)
    if key is None:
        return len(live) == len(desired) and all(map(covers, live, desired))
    by_key = {item.get(key): item for item in live if isinstance(item, dict)}
    return all(item[key] in by_key and covers(by_key[item[key]], item) for item in desired)


def first_difference(live: Any, desired: Any, field: str = "") -> str:
    """Return the path of the first value of `desired` that `live` lacks, such as `spec.replicas`; empty without one."""
    if covers(live, desired, field):
        return ""
    inherited = field if field in _QUANTITIES else None
    for key, old, new in _parts(live, desired):
        if not covers(old, new, inherited or key):
            rest = "" if old is None else first_difference(old, new, inherited or key)
            return f"{key}.{rest}" if rest else key
    return ""


def _parts(live: Any, desired: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the key of each part of `desired` with its value in `live` and in `desired`."""
    if isinstance(desired, dict):
        items = live if isinstance(live, dict) else {}
        yield from ((key, items.get(key), value) for key, value in desired.items())
    elif isinstance(desired, list | tuple) and (merge_key := _merge_key(desired)):
        by_key = {item.get(merge_key): item for item in live or () if isinstance(item, dict)}
        yield from ((str(item[merge_key]), by_key.get(item[merge_key]), item) for item in desired)


def _merge_key(items: Sequence[Any]) -> str | None:
    if not items or not all(isinstance(item, dict) for item in items):
        return None
    return next((key for key in _KEYS if all(key in item for item in items)), None)


def _quantity(value: Any) -> Decimal | str | None:
    """Return the number of a Kubernetes quantity, or the value itself if it is not a quantity."""
    if value is None:
        return None
    text = str(value)
    number = text.rstrip("numkMGTPEi")
    try:
        return Decimal(number) * _SUFFIXES[text[len(number) :]]
    except (InvalidOperation, KeyError):
        return text


DIGITS = 10
"""Forty bits, enough for the few revisions of one pool."""


def digest(value: object) -> str:
    """Return a short hex digest of any JSON value."""
    plain = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()[:DIGITS]
