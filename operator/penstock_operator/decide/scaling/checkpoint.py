"""The checkpoint of a law's state: a ConfigMap of the pool that survives a restart or a change of leader.

No pod mounts it. It is written at most once a minute, when a value has left its dead band or once an hour, since the demand
and its forecast errors are used by their age. It may be deleted at any time: the law then learns again.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock_operator.decide.actions import ChildWrite
from penstock_operator.decide.manifests.metadata import Manifest, checkpoint_name, metadata
from penstock_operator.decide.manifests.writes import child_write, foreign
from penstock_operator.observed import PoolView

FILE = "memory.json"
INTERVAL_SECONDS = 60.0
"""Seconds between writes, and before the first: a new pool has nothing worth storing."""
REFRESH_SECONDS = 3600.0
"""Maximum seconds between writes of a pool that has something to store."""
DEAD_BAND = 0.25
FLOORS: Mapping[str, float] = {
    "level": 2.0, "imbalance": 0.3, "dispersion": 1.0, "unevenness": 0.05,
    "largestRows": 1.0, "judged": 20.0,
}  # fmt: skip
"""Fields whose change is worth a write, each with the smallest difference that counts."""
MAX_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A stored checkpoint."""

    algorithm: str
    written: float
    """Unix seconds."""
    data: Mapping[str, Any]


def stored_checkpoint(view: PoolView) -> Checkpoint | None:
    """Return the pool's checkpoint; None if it is missing or unreadable."""
    child = view.children.get(("ConfigMap", checkpoint_name(view.pool)))
    if child is None or foreign(child, view.pool):
        return None
    text = (child.manifest.get("data") or {}).get(FILE, "")
    try:
        stored = json.loads(text if len(text) <= MAX_BYTES else "", parse_int=_finite)
        known = Checkpoint(str(stored["algorithm"]), float(stored["written"]), stored["data"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None  # edited by hand: the next write replaces it
    return known if isinstance(known.data, dict) else None


def _finite(digits: str) -> int:
    """Return an integer. Raises OverflowError beyond the numbers of a float."""
    float(number := int(digits))
    return number


def checkpoint_write(
    view: PoolView, algorithm: str, data: Mapping[str, Any], now: float
) -> ChildWrite | None:
    """Return the write that stores `data`, or None if nothing has changed enough; fields that `data` lacks stay stored."""
    before = stored_checkpoint(view)
    if before is not None and before.algorithm == algorithm:
        data = {**before.data, **data}
        age = now - before.written
        old = not 0 <= age < _refresh_seconds(view.pool.uid)
        due = old or left_dead_band(before.data, data)
        if 0 <= age < INTERVAL_SECONDS or not due:
            return None
    child = view.children.get(("ConfigMap", checkpoint_name(view.pool)))
    return child_write(view.pool, child, _manifest(view, algorithm, data, now))


def _refresh_seconds(uid: str) -> float:
    """Return half an hour to an hour, constant for a pool, so that many pools are not written at once."""
    return REFRESH_SECONDS * (1 + zlib.crc32(uid.encode()) / 2**32) / 2


def left_dead_band(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether a value has left its dead band: a field of `FLOORS`, the start-up times, the revision or the routing.

    A value that is not known yet replaces none.
    """
    if any(before.get(key) != after.get(key) for key in ("revision", "starts", "spread")):
        return True
    return any(
        _left(before.get(key), after.get(key), floor)
        for key, floor in FLOORS.items()
        if after.get(key) is not None
    )


def _left(old: object, new: object, floor: float) -> bool:
    if not isinstance(old, int | float) or not isinstance(new, int | float):
        return old != new
    return abs(new - old) > max(floor, DEAD_BAND * abs(old))


def _manifest(view: PoolView, algorithm: str, data: Mapping[str, Any], now: float) -> Manifest:
    known = {"algorithm": algorithm, "written": int(now), "data": data}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(view.pool, checkpoint_name(view.pool)),
        "data": {FILE: json.dumps(known, sort_keys=True, separators=(",", ":"))},
    }
