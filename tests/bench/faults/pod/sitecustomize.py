"""Turns time in one pod while a file says so: `slow` holds a factor of every sleep, `clock` the seconds to add.

Python runs it at its start where it is found first; it lies in a ConfigMap that the pool's pods mount.
"""

import os
import time
from pathlib import Path
from typing import SupportsIndex

FOLDER = Path(os.environ.get("FAULTS_FOLDER", "/tmp"))  # noqa: S108 - the pod's own
LOOK_SECONDS = 0.2

_sleep, _time = time.sleep, time.time
_held: dict[str, tuple[float, float]] = {}


def _told(name: str, otherwise: float) -> float:
    """Return what a file says, looked up now and then."""
    now = time.monotonic()
    value, until = _held.get(name, (otherwise, 0.0))
    if now >= until:
        try:
            value = float((FOLDER / name).read_text())
        except (OSError, ValueError):
            value = otherwise
        _held[name] = (value, now + LOOK_SECONDS)
    return value


def _slow_sleep(seconds: float | SupportsIndex, /) -> None:
    _sleep(float(seconds) * _told("slow", 1.0))


def _wrong_time() -> float:
    return _time() + _told("clock", 0.0)


time.sleep, time.time = _slow_sleep, _wrong_time
