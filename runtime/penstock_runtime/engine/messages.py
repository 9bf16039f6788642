"""What crosses between the HTTP side and the engine: one message a step each way, in any placement.

HTTP side to engine: `Submit`, `Cancel`, `SetLimits`, `Drain`. Engine to HTTP side: one `Settled` a step.
Every value is picklable, holds numpy arrays and plain data only, and never a callback or a torch tensor.
"""

from msgspec import Struct

from penstock_api.limits import LimitsUpdate
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.request import End, Request


class Submit(Struct, frozen=True, gc=False):
    """Admitted requests, in order of admission."""

    requests: tuple[Request, ...]


class Cancel(Struct, frozen=True):
    """Their clients went away; those already settled are ignored."""

    ids: tuple[str, ...]


class SetLimits(Struct, frozen=True):
    """Obey these from the next batch on. Older generations were refused before they got here."""

    update: LimitsUpdate


class Drain(Struct, frozen=True):
    """Serve what is predicted to finish by `deadline`, fail the rest with `retry_after_seconds`."""

    deadline: float
    retry_after_seconds: float


ToEngine = Submit | Cancel | SetLimits | Drain


class BatchReport(Struct, frozen=True):
    """One settled batch."""

    requests: int
    rows: int
    seconds: float
    """Device time of the step."""
    out_of_memory_splits: int = 0


class EngineReport(Struct, frozen=True):
    """The engine as it stands after a step."""

    waiting: int
    running: int
    generation: int
    """Of the limits in force for the next batch."""
    converging: bool
    batch_cap_bound: int
    busy_seconds: float
    """Ever-growing; its rate is the engine's busy share."""
    curve: ServiceTimeSums
    surplus: int | None = None
    """How many generations run above the cap; None where the engine answers in batches."""


class Settled(Struct, frozen=True):
    """What a step ended: request ids with their ends, the batch if one ran, and the engine's state."""

    ends: tuple[tuple[str, End], ...]
    batch: BatchReport | None
    report: EngineReport
    began: tuple[str, ...] = ()
    """Ids of those in the batch that now begins: their deadline can pass them no more, nor do they give way."""


class EngineDied(Struct, frozen=True):
    """The last message of an engine: nothing it held will be served."""

    reason: str


FromEngine = Settled | EngineDied
