"""Changes time in a pod by two control files: `slow` has a factor for every sleep, `clock` the seconds to add.

Python runs this module at start-up; it is in a ConfigMap that the pool's pods mount.
"""

import os
import time
from pathlib import Path
from typing import SupportsIndex

FOLDER = Path(os.environ.get("FAULTS_FOLDER", "/tmp"))  # noqa: S108 - the pod's own
LOOK_SECONDS = 0.2

_sleep, _time = time.sleep, time.time
_cache: dict[str, tuple[float, float]] = {}


def _setting(name: str, otherwise: float) -> float:
    """Return the number in a file, cached for LOOK_SECONDS."""
    now = time.monotonic()
    value, until = _cache.get(name, (otherwise, 0.0))
    if now >= until:
        try:
            value = float((FOLDER / name).read_text())
        except (OSError, ValueError):
            value = otherwise
        _cache[name] = (value, now + LOOK_SECONDS)
    return value


def _slow_sleep(seconds: float | SupportsIndex, /) -> None:
    _sleep(float(seconds) * _setting("slow", 1.0))


def _wrong_time() -> float:
    return _time() + _setting("clock", 0.0)


time.sleep, time.time = _slow_sleep, _wrong_time
