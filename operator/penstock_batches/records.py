"""The records of the service: files, batches, lines and answers. Frozen; times are Unix seconds."""

from enum import StrEnum

import msgspec


class Purpose(StrEnum):
    """What a file is for, in OpenAI's words."""

    BATCH = "batch"
    BATCH_OUTPUT = "batch_output"
    INFER = "infer"
    """Body or answer of an asynchronous infer request, which no list of files shows."""


class Status(StrEnum):
    """The state of a batch, in OpenAI's words; `transitions.py` has the edges."""

    VALIDATING = "validating"
    FAILED = "failed"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    COMPLETED = "completed"
    EXPIRED = "expired"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"


class LineState(StrEnum):
    """The state of a line of a batch.

    Pending to Leased to Answered. A lease that ends without an answer makes the line Pending again.
    """

    PENDING = "Pending"
    LEASED = "Leased"
    ANSWERED = "Answered"


class File(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of a tenant; its content is on the volume, under its id."""

    id: str
    tenant: str
    purpose: Purpose
    filename: str
    bytes: int
    created_at: float
    expires_at: float | None = None

    @property
    def listing(self) -> str:
        """Name of the list that has it."""
        return listing(self.tenant, infer=self.purpose is Purpose.INFER)


def listing(tenant: str, *, infer: bool) -> str:
    """Return the name of a list of a tenant: what belongs to infer requests is in none of `/v1`."""
    return f"infer\0{tenant}" if infer else tenant


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong with a line of the input, or with the whole of it (`line` is None)."""

    code: str
    message: str
    line: int | None = None
    """Number of the line, from 1."""
    param: str | None = None


class BatchJob(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch; `revision` grows with each write, and a write names the one that it read."""

    id: str
    tenant: str
    endpoint: str
    input_file_id: str
    completion_window: str
    created_at: float
    expires_at: float
    status: Status = Status.VALIDATING
    revision: int = 0
    key_digest: str = ""
    """SHA-256 of the API key that created it, in hex; empty where clients need no key."""
    model: str | None = None
    metadata: dict[str, str] | None = None
    errors: tuple[Fault, ...] = ()
    """The first faults of the input."""
    output_seconds: float | None = None
    """Time after which the files of the batch's answers are deleted."""
    in_progress_at: float | None = None
    finalizing_at: float | None = None
    completed_at: float | None = None
    failed_at: float | None = None
    expired_at: float | None = None
    cancelling_at: float | None = None
    cancelled_at: float | None = None
    expiring: bool = False
    """Whether it is finalizing because its time is over."""
    output_file_id: str | None = None
    error_file_id: str | None = None
    final: "Counts | None" = None
    """The counts of a batch that has ended."""
    infer: bool = False
    """Whether it is one asynchronous infer request: no list of batches shows it."""
    webhook: str = ""
    """URL that is called when it has ended; empty: none, or called already."""

    @property
    def listing(self) -> str:
        """Name of the list that has it."""
        return listing(self.tenant, infer=self.infer)


class Counts(msgspec.Struct, frozen=True):
    """How many lines a batch has, and how many were answered without and with an error."""

    total: int = 0
    completed: int = 0
    failed: int = 0

    @property
    def left(self) -> int:
        """Lines without an answer."""
        return self.total - self.completed - self.failed


class Line(msgspec.Struct, frozen=True):
    """Where a line is in the input file: `number` counts from 1, `offset` and `length` are bytes."""

    number: int
    offset: int
    length: int


class Answer(msgspec.Struct, frozen=True):
    """Where the answer of a line is: `length` bytes at `offset` of a segment of the batch."""

    number: int
    segment: str
    offset: int
    length: int
    ok: bool
    """Whether it belongs to the output file; otherwise to the error file."""
