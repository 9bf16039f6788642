"""Messages between the HTTP side and an engine: one message per step each way, in any placement.

Every engine receives `Cancel`, `SetLimits` and `Drain`. A batch engine also receives `Submit`, and sends one `Settled`
per step. `engine.continuous.messages` adds the messages of generation. `EngineDied` is the last message of any engine.
Every value is picklable and holds numpy arrays and plain data only, never a callback or a torch tensor.
"""

from msgspec import Struct

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.request import End, Failed, Request


class Submit(Struct, frozen=True, gc=False):
    """Admitted requests, in order of admission."""

    requests: tuple[Request, ...]


class Cancel(Struct, frozen=True):
    """Requests whose clients disconnected; ids that have already ended are ignored."""

    ids: tuple[str, ...]


class SetLimits(Struct, frozen=True):
    """Limits that apply from the next batch or plan; the HTTP side rejects older generations."""

    update: LimitsUpdate


class Drain(Struct, frozen=True):
    """Serve the requests that are predicted to finish by `deadline`, and fail the others."""

    deadline: float
    """Time of the monotonic clock."""
    retry_after_seconds: float

    def rejection(self) -> Failed:
        """Return the end of a request that the drain does not serve."""
        return Failed("draining", self.retry_after_seconds)


ToEngine = Submit | Cancel | SetLimits | Drain


class BatchReport(Struct, frozen=True):
    """One completed batch."""

    requests: int
    rows: int
    seconds: float
    """Device time of the step."""
    out_of_memory_splits: int = 0


class EngineReport(Struct, frozen=True):
    """State of an engine after a step."""

    waiting: int
    running: int
    generation: int
    """Generation of the limits that the next batch follows."""
    converging: bool
    batch_cap_bound: int
    busy_seconds: float
    """Total device time; its rate is the share of time in which the engine is busy."""
    curve: ServiceTimeSums
    surplus: int | None = None
    """Number of generations that run above the cap; None for a batch engine."""
    running_batch_work: int = 0
    """Running requests of batch work; 0 for a batch engine, whose admission counts those that wait."""


class Settled(Struct, frozen=True):
    """The result of one step: request ids with their ends, the batch if one ran, and the state of the engine."""

    ends: tuple[tuple[str, End], ...]
    batch: BatchReport | None
    report: EngineReport
    began: tuple[str, ...] = ()
    """Ids of the requests in the batch that starts now; they no longer expire and cannot be displaced."""


class EngineDied(Struct, frozen=True):
    """The last message of an engine: none of its requests will be served."""

    reason: str


FromEngine = Settled | EngineDied
