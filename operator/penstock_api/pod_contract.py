"""The live limits and the state report that operator and runtime exchange (docs/design/design.md#the-wire-contract)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field, ValidationInfo, field_validator

from penstock_api.base import WireModel

MAX_BATCH_SIZE = 4096
SIZE_CLASSES = MAX_BATCH_SIZE.bit_length()
"""Classes of batch sizes by power of two: class i has the sizes over 2**(i - 1), up to 2**i."""
SUMS_PER_SIZE = 3
MAX_BATCHED_TOKENS = 1_048_576
MAX_QUEUE_DEPTH = 1_000_000
MAX_QUEUE_DELAY_MILLISECONDS = 60_000
MAX_RANKS = 16
"""Processes that a model may be split over, as many as a node has cards."""
MAX_LOAD_SECONDS = 3600
"""Time for fetching, loading and warming up a model, after which the container exits and is restarted."""

BatchSize = Annotated[int, Field(ge=1, le=MAX_BATCH_SIZE)]
BatchedTokens = Annotated[int, Field(ge=1, le=MAX_BATCHED_TOKENS)]
QueueDepth = Annotated[int, Field(ge=1, le=MAX_QUEUE_DEPTH)]
QueueDelayMilliseconds = Annotated[int, Field(ge=0, le=MAX_QUEUE_DELAY_MILLISECONDS)]
Generation = Annotated[int, Field(ge=0, lt=2**53)]
"""Below 2**53, so that every JSON reader represents it exactly (a CRD's `maximum` is a double, too)."""


class Discipline(StrEnum):
    """The order in which waiting requests are served."""

    FIRST_IN_FIRST_OUT = "FirstInFirstOut"
    PRIORITY = "Priority"
    EARLIEST_DEADLINE_FIRST = "EarliestDeadlineFirst"
    SHORTEST_JOB_FIRST = "ShortestJobFirst"
    FAIR_SHARE = "FairShare"


class Preemption(StrEnum):
    """Condition under which a running generation is preempted. One-shot batches are never interrupted."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"
    TIME_SLICE = "TimeSlice"


class Lowering(StrEnum):
    """Effect of a lowered cap on the running generations above it."""

    FINISH = "Finish"
    EVICT = "Evict"


class Limits(WireModel):
    """Live settings of a pod, changed without a restart. Queue depth counts requests.

    Batch sizes are rows, or running sequences in a pod that generates text; the last three apply to such pods only.
    """

    max_batch_size: BatchSize
    max_queue_depth: QueueDepth
    max_queue_delay_milliseconds: QueueDelayMilliseconds
    discipline: Discipline
    max_batched_tokens: BatchedTokens | None = None
    """Tokens per step, at least `max_batch_size`; None: chosen by the pod."""
    preemption: Preemption = Preemption.NEVER
    drain: Lowering = Lowering.FINISH
    """Whether generations above a lowered cap finish, or are evicted at once and resumed later."""

    @field_validator("max_batched_tokens")
    @classmethod
    def _every_sequence_can_decode(cls, tokens: int | None, given: ValidationInfo) -> int | None:
        size = given.data.get("max_batch_size")
        if tokens is not None and size is not None and tokens < size:
            raise ValueError(
                f"must be at least maxBatchSize {size}, so that every running sequence can have one token per step"
            )
        return tokens


class LimitsUpdate(Limits):
    """Body of `PATCH /control/v1/limits` and of the settings file: limits with their generation.

    An unknown field is an error: a pod must not acknowledge a limit that it does not apply.
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
    """A limit outside the pod's envelope."""

    field: str
    """Name on the wire."""
    value: int
    bounds: Range

    def __str__(self) -> str:
        """Return a message with the bounds and the value."""
        return (
            f"`{self.field}` must be from {self.bounds.min} to {self.bounds.max} in this pod,"
            f" got {self.value}"
        )


class Envelope(WireModel):
    """Range of each limit that a pod accepts; a value outside gets a 422 response that names the field."""

    max_batch_size: Range
    max_queue_depth: Range
    max_queue_delay_milliseconds: Range
    max_batched_tokens: Range | None = None
    """For pods that generate text: at most the capacity of the cache, which no step can exceed. Unset is always valid."""

    def outside(self, limits: Limits) -> OutOfRange | None:
        """Return the first of `limits` outside its range, or None."""
        for name, field in type(self).model_fields.items():
            bounds, value = getattr(self, name), getattr(limits, name)
            if bounds is not None and value is not None and not bounds.min <= value <= bounds.max:
                return OutOfRange(field.alias or name, value, bounds)
        return None


class PodLoad(WireModel):
    """Current load of a pod in requests."""

    waiting: Annotated[int, Field(ge=0)]
    running: Annotated[int, Field(ge=0)]


class LoadStage(StrEnum):
    """Stage of a pod's start."""

    WAITING = "Waiting"
    """Another pod downloads the model into the shared cache."""
    FETCHING = "Fetching"
    STARTING = "Starting"
    """The files are complete: the model is loaded on its device and warmed up."""


class Loading(WireModel):
    """Progress of a pod's start: the member `loading` of the 503 response of `GET /control/v1/state`."""

    stage: LoadStage
    loaded_bytes: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """Bytes of the model in the cache."""
    total_bytes: Annotated[int, Field(ge=0, lt=2**53)] = 0
    """Size of the model; 0: nothing is downloaded, or the size is not known yet."""


class CurveSums(WireModel):
    """Sums over completed batches of cost `b` (rows, padded) and time `t` (seconds).

    `seconds = a + c * cost_units` follows by least squares from the difference of two reports of the same epoch, and the shape
    of the curve from `by_size`.
    """

    epoch: int = 0
    batches: float = 0.0
    cost_units: float = 0.0
    cost_units_squared: float = 0.0
    seconds: float = 0.0
    cost_unit_seconds: float = 0.0
    seconds_squared: float = 0.0
    by_size: Annotated[tuple[float, ...], Field(max_length=SIZE_CLASSES * SUMS_PER_SIZE)] = ()
    """Batches, rows and seconds of the batches of 1 row, of 2, of 3 to 4, of 5 to 8 rows, and so on; empty: not counted."""


class GenerationCurveSums(WireModel):
    """Sums over steps of the products of x = (1, p/256, d, k/4096, t): the upper triangle, row by row.

    p are prefill tokens, d decode rows, k tokens read from the cache, t seconds; any least-squares fit of t
    to the others follows from the difference of two reports of the same epoch.
    """

    epoch: int
    sums: Annotated[tuple[float, ...], Field(min_length=15, max_length=15)]


BackendName = Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]


class BackendCandidate(WireModel):
    """One backend of a model, as the pod measured it."""

    name: BackendName
    rows_per_second: tuple[Annotated[float, Field(ge=0, lt=1e15)], ...] = ()
    """Rows per second at each of `ModelBackendState.batch_sizes`; empty: not measured."""
    greatest_error: float | None = None
    """Greatest difference from the untouched model relative to its greatest output; for text generation, of the log-probabilities of
    the 20 most probable tokens from float32; None: not compared."""
    mean_error: float | None = None
    """Mean of that difference, for text generation."""
    equal_token_share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of positions whose most probable token is that of float32, for text generation."""
    message: str | None = None
    """Reason why it cannot be selected; None: it can."""


class ModelBackendState(WireModel):
    """Backend of a model, and what the others would have given."""

    name: BackendName
    """The backend in use, a `penstock_api.types.model.ModelBackend` other than Auto."""
    batch_sizes: tuple[Annotated[int, Field(ge=1, lt=2**31)], ...] = ()
    """Rows of the measured batches; empty: the backend was not measured, since it was not a choice."""
    candidates: tuple[BackendCandidate, ...] = ()
    cached: bool = False
    """Whether choice and compiled model are from a cache."""


class State(WireModel):
    """Response to `GET /control/v1/state` and to an accepted `PATCH /control/v1/limits`."""

    generation: Generation
    limits: Limits
    envelope: Envelope
    effective_max: BatchSize
    """Largest cap that the pod's memory allows: a larger `maxBatchSize` is clamped to it, not rejected."""
    converging: bool
    """Whether a batch of an older generation of limits still runs, or more generations than a lowered cap allows."""
    surplus: Annotated[int, Field(ge=0)] | None = None
    """Number of generations that run above the cap until they finish; None for one-shot models."""
    load: PodLoad
    curve: CurveSums
    generation_curve: GenerationCurveSums | None = None
    """Sums of the current epoch, for pods that generate text."""
    previous_generation_curve: GenerationCurveSums | None = None
    """Sums of the previous epoch."""
    model: str
    backend: str
    """Device: `cpu`, `cuda:NVIDIA H200`, `emulated-accelerator`."""
    attention: str | None = None
    """Attention backend, for pods that generate text."""
    dtype: str | None = None
    """Data type of weights, keys and values, such as `bfloat16`, for pods that generate text."""
    model_backend: ModelBackendState | None = None
    """Backend of the model, for one-shot models, and for text generation in a requested 16-bit type."""
