"""Handshake of the engine process and its parent, which precedes the messages of `engine/messages.py`."""

from dataclasses import dataclass
from typing import Any

from penstock_runtime.engine.link.base import Opener
from penstock_runtime.engine.link.heartbeat import HEARTBEAT_BYTES

TO_ENGINE_BYTES = 256 * 2**20
FROM_ENGINE_BYTES = 256 * 2**20
"""Address space per direction; only messages in flight use memory. A message that does not fit is sent by socket."""

MEMORY_BYTES = HEARTBEAT_BYTES + TO_ENGINE_BYTES + FROM_ENGINE_BYTES
TO_ENGINE = (HEARTBEAT_BYTES, TO_ENGINE_BYTES)
FROM_ENGINE = (HEARTBEAT_BYTES + TO_ENGINE_BYTES, FROM_ENGINE_BYTES)


@dataclass(frozen=True, slots=True)
class Start:
    """First message, parent to child: open this engine."""

    open: Opener[Any, Any, Any]
    """Picklable: a module-level function, or a `functools.partial` of one."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Child to parent: the model is warm."""

    info: Any
    """Description of the model."""


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """Last message, child to parent: the reason why the model cannot be served."""

    reason: str
