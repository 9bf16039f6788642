"""The one way the HTTP side reaches an engine, wherever that engine is placed (docs/design/runtime.md#topology)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock_runtime.engine.messages import FromEngine, ToEngine
from penstock_runtime.engine.model import ModelInfo, ModelLoadFailed

__all__ = ["EngineLink", "Heartbeat", "ModelLoadFailed"]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life, readable at any moment without a lock. Times are of the monotonic clock."""

    last_step: float
    """When the engine last began or ended a step, or a part of one."""
    busy: bool
    """Whether a batch runs now."""
    predicted_seconds: float
    """How long the running step was predicted to take; 0 when not busy."""
    alive_at: float
    """When the engine last showed a sign of life: a step, or a tick while it waits for work."""


class EngineLink(Protocol):
    """An engine seen from the event loop. Every method but `heartbeat` is called in the loop only."""

    async def start(self, deliver: Callable[[FromEngine], None]) -> ModelInfo:
        """Load the model, measure its memory per row, warm it up; return what it says of itself.

        `deliver` is called in the event loop, once a step: when a batch was settled, when one begins
        after idling, when new limits came into force, when a request ended without a batch. It has been
        called once, with the first `EngineReport`, before this returns. After `EngineDied` it is
        never called again, and whatever was held will not be served.

        Raises:
            ModelLoadFailed: with one line that names the file or factory and the remedy.
        """

    def send(self, message: ToEngine) -> None:
        """Hand a message to the engine; never blocks. After its death or `close` it is ignored.

        `Request.id` is unique among the requests that the engine holds. A generation that was sent and
        is not yet in a report means: a batch formed under older limits may still run (`converging`).
        """

    def set_more_coming_hint(self, coming: Callable[[], bool]) -> None:
        """Learn how to ask whether more is about to be sent: an engine on the core that brings it may hold a batch for it."""

    def heartbeat(self) -> Heartbeat:
        """Return the last sign of life; any thread may ask."""

    def kill(self) -> None:
        """Give up on a stuck engine without waiting: its process is killed; a thread ends with this process."""

    async def close(self) -> None:
        """Let a running batch finish, end what is still held as Failed, and give the engine's thread back."""
