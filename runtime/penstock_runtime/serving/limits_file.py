"""The settings folder: the slow second path of the limits, under the same generations as the control API.

It is read before the pod knows its envelope, and nobody hears a refusal: limits beyond it are obeyed as far as memory goes.
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
    """Return the limits in the file, or the built-in ones where there is none that can be read."""
    found = read_limits(path)
    if found is None:
        log.info("no limits in %s: the built-in ones hold", path)
    return found or FIRST_LIMITS


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
    """Apply the file's limits whenever their generation is newer than what the pod holds; runs for ever."""
    while True:
        found = await asyncio.to_thread(read_limits, path)
        if found is not None and found.generation > live.accepted.generation:
            _apply(live, found)
        await asyncio.sleep(every_seconds)


def _apply(live: LiveLimits, update: LimitsUpdate) -> None:
    try:
        live.accept(update)
        log.info("limits taken from the settings file", extra={"generation": update.generation})
    except GenerationConflict as conflict:
        log.info("limits in the settings file are behind: %s", conflict)
