"""`EngineLink`: the HTTP side's connection to an engine, in any placement (docs/design/runtime.md#topology)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed

__all__ = ["EngineLink", "Heartbeat", "ModelLoadFailed", "OpenedEngine", "Opener"]

Command = TypeVar("Command")
Command_contra = TypeVar("Command_contra", contravariant=True)
"""Type of the messages to the engine."""
Report_co = TypeVar("Report_co", covariant=True)
"""Type of the message that the engine sends per step."""
Info_co = TypeVar("Info_co", covariant=True)
"""Type of the description of a loaded model."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Liveness of an engine, readable at any time without a lock. Times are those of the monotonic clock."""

    last_step: float
    """Time at which the engine last started or ended a step, or a part of one."""
    busy: bool
    """Whether a step runs now."""
    predicted_seconds: float
    """Predicted duration of the running step; 0 when not busy."""
    alive_at: float
    """Time of the last step, or of the last tick of an idle engine."""


class EngineLink(Protocol[Command_contra, Report_co, Info_co]):
    """An engine as the event loop sees it. Every method but `heartbeat` is called in the loop only."""

    async def start(self, deliver: Callable[[Report_co | EngineDied], None]) -> Info_co:
        """Load the model, measure its memory per row, warm it up, and return its description.

        `deliver` is called in the event loop, once per step: when a batch completes, when one starts
        after idling, when new limits apply, when a request ends without a batch. The first report is
        delivered before this returns. `EngineDied` is the last message: no request ends after it.

        Raises:
            ModelLoadFailed: with one line that names the file or factory and the remedy.
        """

    def send(self, message: Command_contra) -> None:
        """Send a message to the engine without blocking; ignored after its death or `close`.

        `Request.id` is unique among the requests of the engine. Until a report has the generation of the
        limits that were sent, a batch formed under older limits may still run (`converging`).
        """

    def set_more_coming_hint(self, more_coming: Callable[[], bool]) -> None:
        """Set the function that returns whether more requests are about to be sent.

        An engine that shares a core with the event loop may hold a batch for them.
        """

    def heartbeat(self) -> Heartbeat:
        """Return the last heartbeat; callable from any thread."""

    def kill(self) -> None:
        """Abandon a stuck engine without waiting: its process is killed; a thread ends with this process."""

    async def close(self) -> None:
        """Let a running batch finish, end the other requests as Failed, and end the engine's thread or process."""


class OpenedEngine(Protocol[Command_contra, Report_co, Info_co]):
    """An engine with a loaded model, in the thread or process that will run it."""

    @property
    def receives_in_thread(self) -> bool:
        """Whether a separate thread decodes messages from another process, so that steps do not wait for decoding."""

    @property
    def info(self) -> Info_co:
        """Description of the model."""

    def first_report(self) -> Report_co:
        """Return the report that precedes the first request."""

    def serve(
        self,
        inbox: Inbox[Command_contra],
        post: Callable[[Report_co], None],
        heartbeat: HeartbeatWriter,
        clock: Callable[[], float],
    ) -> None:
        """Serve until the inbox is closed, then end the remaining requests."""


Opener = Callable[[Callable[[], float]], OpenedEngine[Command, Report_co, Info_co]]
"""Opens an engine, given the monotonic clock; raises ModelLoadFailed."""
