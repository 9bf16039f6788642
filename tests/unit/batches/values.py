"""Values that tests of the batch service share."""

from typing import Any

from penstock_batches.records import BatchJob, File, Line, Purpose, Status

NOW = 1_800_000_000.0


def batch(number: int = 1, tenant: str = "", **more: Any) -> BatchJob:
    """A batch that has just been created."""
    fields: dict[str, Any] = {
        "id": f"batch_{number}",
        "tenant": tenant,
        "endpoint": "/v1/completions",
        "input_file_id": "file-in",
        "completion_window": "24h",
        "created_at": NOW + number,
        "expires_at": NOW + number + 86400,
    }
    return BatchJob(**fields | more)


def in_progress(number: int = 1, **more: Any) -> BatchJob:
    """A batch whose lines are dispatched."""
    return batch(number, status=Status.IN_PROGRESS, model="demo", **more)


def file(number: int = 1, tenant: str = "", **more: Any) -> File:
    """A file."""
    fields: dict[str, Any] = {
        "id": f"file-{number}",
        "tenant": tenant,
        "purpose": Purpose.BATCH,
        "filename": "input.jsonl",
        "bytes": 100,
        "created_at": NOW + number,
    }
    return File(**fields | more)


def lines(number: int) -> list[Line]:
    """Lines 1 to `number`, of 10 bytes each."""
    return [Line(each, (each - 1) * 10, 10) for each in range(1, number + 1)]
