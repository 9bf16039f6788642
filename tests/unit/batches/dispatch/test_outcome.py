"""What a response means for a line."""

import pytest

from penstock_batches.dispatch.outcome import MAX_FAILURES, LineVerdict, retry_after, verdict


@pytest.mark.parametrize(
    ("status", "first", "last"),
    [
        (200, LineVerdict.OUTPUT, LineVerdict.OUTPUT),
        (400, LineVerdict.ERROR, LineVerdict.ERROR),
        (401, LineVerdict.ERROR, LineVerdict.ERROR),
        (404, LineVerdict.ERROR, LineVerdict.ERROR),
        (413, LineVerdict.ERROR, LineVerdict.ERROR),
        (429, LineVerdict.WAIT, LineVerdict.WAIT),
        (503, LineVerdict.WAIT, LineVerdict.WAIT),
        (500, LineVerdict.RETRY, LineVerdict.ERROR),
        (504, LineVerdict.RETRY, LineVerdict.ERROR),
    ],
)
def test_capacity_waits_and_failures_end(
    status: int, first: LineVerdict, last: LineVerdict
) -> None:
    assert verdict(status, 0) is first
    assert verdict(status, MAX_FAILURES - 1) is last


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("3", 3.0), ("", None), ("-1", None), ("soon", None), ("٣", None), ("9" * 99, 999999.0)],
)  # fmt: skip
def test_retry_after_is_read_in_seconds(text: str | None, seconds: float | None) -> None:
    assert retry_after(text) == seconds
