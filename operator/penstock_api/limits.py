"""The live limits and the state report that operator and runtime exchange (docs/design/design.md#the-wire-contract)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from penstock_api.base import WireModel

MAX_BATCH_SIZE = 4096
MAX_BATCHED_TOKENS = 1_048_576
MAX_QUEUE_DEPTH = 1_000_000
MAX_QUEUE_DELAY_MILLISECONDS = 60_000

BatchSize = Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)]
BatchedTokens = Annotated[int, Field(ge=1, le=MAX_BATCHED_TOKENS)]
QueueDepth = Annotated[int, Field(ge=1, le=MAX_QUEUE_DEPTH)]
QueueDelayMilliseconds = Annotated[int, Field(ge=0, le=MAX_QUEUE_DELAY_MILLISECONDS)]
Generation = Annotated[int, Field(ge=0, lt=2**53)]
"""Below 2**53, so that every JSON reader keeps it exact (a CRD's `maximum` is a double, too)."""


class Discipline(StrEnum):
    """The order in which waiting requests are served."""

    FIRST_IN_FIRST_OUT = "FirstInFirstOut"
    PRIORITY = "Priority"
    EARLIEST_DEADLINE_FIRST = "EarliestDeadlineFirst"
    SHORTEST_JOB_FIRST = "ShortestJobFirst"
    FAIR_SHARE = "FairShare"


class Preemption(StrEnum):
    """Whom a running generation yields to. One-shot batches are never interrupted."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    TIME_SLICE = "TimeSlice"


class Lowering(StrEnum):
    """What a lowered cap does to the generations above it."""

    FINISH = "Finish"
    EVICT = "Evict"


class Limits(WireModel):
    """What a running pod obeys, changed without a restart. Depth is requests.

    Batch sizes are rows, and running sequences where a pod generates text; only that obeys the last three.
    """

    max_batch_size: BatchSize
    max_queue_depth: QueueDepth
    max_queue_delay_milliseconds: QueueDelayMilliseconds
    discipline: Discipline
    max_batched_tokens: BatchedTokens | None = None
    """Tokens of a step, at least `max_batch_size`; None: the pod's own choice."""
    preemption: Preemption = Preemption.NEVER
    drain: Lowering = Lowering.FINISH
    """Of a lowered cap: running generations finish, or are evicted at once and resumed later."""

    @field_validator("max_batched_tokens")
    @classmethod
    def _every_sequence_can_decode(cls, tokens: int | None, given: ValidationInfo) -> int | None:
        size = given.data.get("max_batch_size")
        if tokens is not None and size is not None and tokens < size:
            raise ValueError(
                f"must be at least maxBatchSize {size}, so that every running sequence can have a token a step"
            )
        return tokens


class LimitsUpdate(Limits):
    """The body of `PATCH /control/v1/limits` and of the settings file: limits under a generation.

    An unknown field is an error here: a limit that is not obeyed must not be acknowledged.
    """

    model_config = ConfigDict(extra="forbid")

    generation: Generation

    def limits(self) -> Limits:
        """Return the limits without their generation."""
        return Limits(**self.model_dump(exclude={"generation"}))


class Range(WireModel):
    """Inclusive bounds of one limit."""

    min: int
    max: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A limit that a pod cannot accept."""

    field: str
    """As on the wire."""
    value: int
    bounds: Range

    def __str__(self) -> str:
        """Return what the bounds are and what came."""
        return (
            f"`{self.field}` must be from {self.bounds.min} to {self.bounds.max} in this pod,"
            f" got {self.value}"
        )


class Envelope(WireModel):
    """What this pod can accept; values outside are answered 422 with the field's name."""

    max_batch_size: Range
    max_queue_depth: Range
    max_queue_delay_milliseconds: Range
    max_batched_tokens: Range | None = None
    """Where a pod generates text: to what its cache holds, for no step could have more. Unset is always inside."""

    def outside(self, limits: Limits) -> OutOfRange | None:
        """Return the first of `limits` that is out of bounds, or None."""
        for name, field in type(self).model_fields.items():
            bounds, value = getattr(self, name), getattr(limits, name)
            if bounds is not None and value is not None and not bounds.min <= value <= bounds.max:
                return OutOfRange(field.alias or name, value, bounds)
        return None


class PodLoad(WireModel):
    """What a pod holds now, in requests."""

    waiting: Annotated[int, Field(ge=0)]
    running: Annotated[int, Field(ge=0)]


class LoadStage(StrEnum):
    """What a pod does before it can serve."""

    WAITING = "Waiting"
    """Another pod fetches the model into the cache that both share."""
    FETCHING = "Fetching"
    STARTING = "Starting"
    """The files are there: the model is read, placed on its device and warmed."""


class Loading(WireModel):
    """How far a pod's load has come: the member `loading` of the 503 that `GET /control/v1/state` answers meanwhile."""

    stage: LoadStage
    loaded_bytes: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """Of the model, in the cache."""
    total_bytes: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """0: nothing is fetched, or nobody knows yet how much."""


class CurveSums(WireModel):
    """Sums over settled batches of cost `b` (rows, padded) and time `t` (seconds).

    `seconds = a + c * cost_units` follows by least squares from the difference of two reports of one epoch.
    """

    epoch: int = 0
    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0


class GenerationCurveSums(WireModel):
    """Sums over steps of the products of x = (1, p/256, d, k/4096, t): the upper triangle, row by row.

    p are prefill tokens, d decode rows, k tokens read from the cache, t seconds; any least squares of t on the
    others follows from the difference of two reports of one epoch.
    """

    epoch: int
    sums: Annotated[tuple[float, ...], Field(min_length=15, max_length=15)]


class State(WireModel):
    """The answer to `GET /control/v1/state`, and to an accepted `PATCH /control/v1/limits`."""

    generation: Generation
    limits: Limits
    envelope: Envelope
    effective_max: BatchSize
    """The largest cap this pod's memory allows: `maxBatchSize` above it is clamped to it, not refused."""
    converging: bool
    """Whether a batch formed under an older generation still runs, or more generations than a lowered cap allows."""
    surplus: Annotated[int, Field(ge=0)] | None = None
    """How many generations run above the cap, until they finish; None where a pod answers in batches."""
    load: PodLoad
    curve: CurveSums
    generation_curve: GenerationCurveSums | None = None
    """Where a pod generates text."""
    previous_generation_curve: GenerationCurveSums | None = None
    """Of the epoch before."""
    model: str
    backend: str
    """What computes: `cpu`, `cuda:NVIDIA H200`, `emulated-accelerator`."""
    attention: str | None = None
    """The attention backend that was chosen by trying it, where a pod generates text."""
    dtype: str | None = None
    """The type that weights, keys and values are computed in, such as `bfloat16`, where a pod generates text."""
