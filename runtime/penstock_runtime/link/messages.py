"""What crosses between the HTTP side and the engine: one message a step each way, in any placement.

HTTP side to engine: `Submit`, `Cancel`, `SetLimits`, `Drain`. Engine to HTTP side: one `Settled` a step.
Every value is picklable, holds numpy arrays and plain data only, and never a callback or a torch tensor.
"""

from dataclasses import dataclass

from penstock_api.limits import CurveSums, LimitsUpdate
from penstock_runtime.request import End, Request


@dataclass(frozen=True, slots=True)
class Submit:
    """Admitted requests, in order of admission."""

    requests: tuple[Request, ...]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Their clients went away; those already settled are ignored."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetLimits:
    """Obey these from the next batch on. Older generations were refused before they got here."""

    update: LimitsUpdate


@dataclass(frozen=True, slots=True)
class Drain:
    """Serve what is predicted to finish by `deadline`, fail the rest with `retry_after_seconds`."""

    deadline: float
    retry_after_seconds: float


ToEngine = Submit | Cancel | SetLimits | Drain


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One settled batch."""

    requests: int
    rows: int
    seconds: float
    """Device time of the step."""
    out_of_memory_splits: int = 0


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The engine as it stands after a step."""

    waiting: int
    running: int
    generation: int
    """Of the limits in force for the next batch."""
    converging: bool
    batch_cap_bound: int
    busy_seconds: float
    """Ever-growing; its rate is the engine's busy share."""
    curve: CurveSums


@dataclass(frozen=True, slots=True)
class Settled:
    """What a step ended: request ids with their ends, the batch if one ran, and the engine's state."""

    ends: tuple[tuple[str, End], ...]
    batch: BatchReport | None
    report: EngineReport


@dataclass(frozen=True, slots=True)
class EngineDied:
    """The last message of an engine: nothing it held will be served."""

    reason: str


FromEngine = Settled | EngineDied
