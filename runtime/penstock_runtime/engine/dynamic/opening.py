"""`open_batch_engine`: loads the model, warms it up and measures its service curve."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox, serve
from penstock_runtime.engine.dynamic.warm_up import warm_up
from penstock_runtime.engine.messages import Settled, ToEngine
from penstock_runtime.engine.model import Model, ModelInfo


@dataclass(frozen=True, slots=True)
class OpenedBatchEngine:
    """A batch engine with a warm model; an `engine.link.base.OpenedEngine`."""

    engine: BatchEngine
    info: ModelInfo
    receives_in_thread: ClassVar[bool] = False

    def first_report(self) -> Settled:
        """Return the report that precedes the first request."""
        return Settled((), None, self.engine.report())

    def serve(
        self,
        inbox: Inbox[ToEngine],
        post: Callable[[Settled], None],
        heartbeat: HeartbeatWriter,
        clock: Callable[[], float],
    ) -> None:
        """Serve until the inbox is closed."""
        serve(self.engine, inbox, post, heartbeat, clock)


def open_batch_engine(
    load: Callable[[], Model], limits: LimitsUpdate, clock: Callable[[], float]
) -> OpenedBatchEngine:
    """Load and warm up the model in the thread or process that calls this.

    Raises:
        ModelLoadFailed: as `load`.
    """
    model = load()
    warmed = warm_up(model, clock)
    engine = BatchEngine(model, limits, warmed.bound_rows, warmed.curve)
    return OpenedBatchEngine(engine, model.info)
