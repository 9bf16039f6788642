"""Limits from the mounted ConfigMap: a second, slower source than the control API, under the same generations.

The file is read before the pod knows its envelope and a rejection reaches no client, so limits beyond the envelope
apply as far as memory allows.
"""

import asyncio
import logging
from pathlib import Path

from pydantic import ValidationError

from penstock_api.limits import LimitsUpdate
from penstock_runtime.serving.limits import FIRST_LIMITS, GenerationConflict, LiveLimits

log = logging.getLogger(__name__)

WATCH_SECONDS = 2.0
"""Far below the minute or so that the kubelet takes to bring a ConfigMap's change into a pod."""


def first_limits(path: Path) -> LimitsUpdate:
    """Return the limits in the file, or the built-in limits without a readable file."""
    update = read_limits(path)
    if update is None:
        log.info("no limits in %s: the built-in limits apply", path)
    return update or FIRST_LIMITS


def read_limits(path: Path) -> LimitsUpdate | None:
    """Return the limits in the file; None where it is absent or broken, which is logged."""
    try:
        return LimitsUpdate.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        log.error("the limits in %s cannot be used: %s", path, error)
        return None


async def watch_limits(path: Path, live: LiveLimits, every_seconds: float = WATCH_SECONDS) -> None:
    """Apply the file's limits whenever their generation is newer than the accepted one; never returns."""
    while True:
        update = await asyncio.to_thread(read_limits, path)
        if update is not None and update.generation > live.accepted.generation:
            _apply(live, update)
        await asyncio.sleep(every_seconds)


def _apply(live: LiveLimits, update: LimitsUpdate) -> None:
    try:
        live.accept(update)
        log.info("limits taken from the settings file", extra={"generation": update.generation})
    except GenerationConflict as conflict:
        log.info("limits in the settings file are behind: %s", conflict)
