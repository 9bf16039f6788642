"""The edges between the states of a batch: pure functions of a batch and the time.

    validating ──▶ in_progress ──▶ finalizing ──▶ completed
        │              │    └─────────┬──▲─────▶ expired
        ├──▶ failed    │ cancel       │ time is over
        └──────────────┴──▶ cancelling ──▶ cancelled

Lines are leased and answered in `in_progress` alone, so that after it the answers stay as they are.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from penstock_batches.errors import IllegalTransition
from penstock_batches.records import BatchJob, Counts, Fault, Status

EDGES: Final[Mapping[Status, frozenset[Status]]] = MappingProxyType(
    {
        Status.VALIDATING: frozenset({Status.IN_PROGRESS, Status.FAILED, Status.CANCELLING}),
        Status.IN_PROGRESS: frozenset({Status.FINALIZING, Status.CANCELLING}),
        Status.FINALIZING: frozenset({Status.COMPLETED, Status.EXPIRED}),
        Status.CANCELLING: frozenset({Status.CANCELLED}),
        Status.FAILED: frozenset(),
        Status.COMPLETED: frozenset(),
        Status.EXPIRED: frozenset(),
        Status.CANCELLED: frozenset(),
    }
)
ENDED: Final = frozenset(status for status, after in EDGES.items() if not after)
"""The states that a batch does not leave."""
TAKES_ANSWERS: Final = frozenset({Status.VALIDATING, Status.IN_PROGRESS})
"""The states in which answers are recorded."""


def started(batch: BatchJob, model: str, faults: tuple[Fault, ...], now: float) -> BatchJob:
    """Return a validated batch with work to do."""
    moved = _moved(batch, Status.IN_PROGRESS)
    return replace(moved, model=model, errors=faults, in_progress_at=now)


def failed(batch: BatchJob, faults: tuple[Fault, ...], now: float) -> BatchJob:
    """Return a batch of whose input nothing can be served, or not in time."""
    return replace(_moved(batch, Status.FAILED), errors=faults, failed_at=now)


def finalizing(batch: BatchJob, now: float) -> BatchJob:
    """Return a batch that takes no more answers: all are there, or its time is over."""
    moved = _moved(batch, Status.FINALIZING)
    return replace(moved, finalizing_at=now, expiring=now >= batch.expires_at)


def cancelling(batch: BatchJob, now: float) -> BatchJob:
    """Return a batch that its tenant cancels."""
    return replace(_moved(batch, Status.CANCELLING), cancelling_at=now)


def ended(
    batch: BatchJob, output: str | None, errors: str | None, counts: Counts, now: float
) -> BatchJob:
    """Return a batch with its files: completed, expired or cancelled, as it was going to be."""
    files = {"output_file_id": output, "error_file_id": errors, "final": counts}
    if batch.status is Status.CANCELLING:
        return replace(_moved(batch, Status.CANCELLED), cancelled_at=now, **files)
    if batch.expiring and counts.left:
        return replace(_moved(batch, Status.EXPIRED), expired_at=now, **files)
    return replace(_moved(batch, Status.COMPLETED), completed_at=now, **files)


def over(batch: BatchJob) -> bool:
    """Return whether nothing is left to do for a batch: it has ended, and its webhook was called."""
    return batch.status in ENDED and not batch.webhook


def closes(batch: BatchJob, counts: Counts, now: float) -> bool:
    """Return whether a batch in progress is over: nothing is left, or its time has come."""
    return batch.status is Status.IN_PROGRESS and (counts.left == 0 or now >= batch.expires_at)


def lapses(batch: BatchJob, now: float) -> bool:
    """Return whether the time of a batch is over before its input is validated."""
    return batch.status is Status.VALIDATING and now >= batch.expires_at


def _moved(batch: BatchJob, status: Status) -> BatchJob:
    if status not in EDGES[batch.status]:
        raise IllegalTransition(f"batch {batch.id} is {batch.status} and cannot become {status}")
    return replace(batch, status=status)
