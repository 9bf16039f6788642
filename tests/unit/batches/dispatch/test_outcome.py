"""What a response means for a line."""

import pytest

from penstock_batches.dispatch.outcome import MAX_FAILURES, Verdict, retry_after, verdict


@pytest.mark.parametrize(
    ("status", "first", "last"),
    [
        (200, Verdict.OUTPUT, Verdict.OUTPUT),
        (400, Verdict.ERROR, Verdict.ERROR),
        (401, Verdict.ERROR, Verdict.ERROR),
        (404, Verdict.ERROR, Verdict.ERROR),
        (413, Verdict.ERROR, Verdict.ERROR),
        (429, Verdict.WAIT, Verdict.WAIT),
        (503, Verdict.WAIT, Verdict.WAIT),
        (500, Verdict.RETRY, Verdict.ERROR),
        (504, Verdict.RETRY, Verdict.ERROR),
    ],
)
def test_capacity_waits_and_failures_end(status: int, first: Verdict, last: Verdict) -> None:
    assert verdict(status, 0) is first
    assert verdict(status, MAX_FAILURES - 1) is last


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("3", 3.0), ("", None), ("-1", None), ("soon", None), ("٣", None), ("9" * 99, 999999.0)],
)  # fmt: skip
def test_retry_after_is_read_in_seconds(text: str | None, seconds: float | None) -> None:
    assert retry_after(text) == seconds
