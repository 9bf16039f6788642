"""What a response means for a line."""

import pytest

from penstock_batches.dispatch.outcome import (
    KEYLESS_SECONDS,
    MAX_FAILURES,
    MAX_PAUSE_SECONDS,
    LineVerdict,
    Refuser,
    key_is_gone,
    pause_seconds,
    pod_lost,
    refuser,
    retry_after,
    verdict,
)

ENVOY = b"upstream connect error or disconnect/reset before headers. %b"


@pytest.mark.parametrize(
    ("status", "first", "last"),
    [
        (200, LineVerdict.OUTPUT, LineVerdict.OUTPUT),
        (400, LineVerdict.ERROR, LineVerdict.ERROR),
        (401, LineVerdict.WAIT, LineVerdict.WAIT),
        (403, LineVerdict.WAIT, LineVerdict.WAIT),
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


def test_a_line_that_a_gateway_held_until_its_bound_waits() -> None:
    assert verdict(504, MAX_FAILURES - 1, 30.0) is LineVerdict.WAIT
    assert refuser(504, 60.0) is Refuser.POOL


@pytest.mark.parametrize(
    ("status", "content", "lost"),
    [
        (500, b'{"error": {"message": "the engine has died: CUDA error"}}', True),
        (503, b'{"error": "the engine has died: it is stuck: no step"}', True),
        (503, b'{"error": "the engine of this pod has died: try again elsewhere"}', False),
        (400, b'{"error": "the engine has died: no"}', False),
        (500, b'{"error": "the model failed"}', False),
        (503, ENVOY % b"reset reason: connection termination", True),
        (503, ENVOY % b"retried and the latest reset reason: connection termination", True),
        (503, ENVOY % b"retried and the latest reset reason: remote reset", True),
        (502, ENVOY % b"reset reason: connection termination", False),
        (503, ENVOY % b"reset reason: remote connection failure, transport failure reason: x", False),
        (503, ENVOY % b"reset reason: remote refused stream reset", False),
        (503, ENVOY % b"reset reason: overflow", False),
        (503, b"no healthy upstream", False),
    ],
)  # fmt: skip
def test_the_loss_of_a_pod_or_an_engine_is_known_by_its_error(
    status: int, content: bytes, lost: bool
) -> None:
    assert pod_lost(status, content) is lost


def test_the_pause_before_a_line_is_sent_again_grows_to_a_bound() -> None:
    assert [pause_seconds(times, 0.5) for times in (1, 2, 3)] == [0.5, 1.0, 2.0]
    assert pause_seconds(9, 1.0) == MAX_PAUSE_SECONDS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [(None, None), ("3", 3.0), ("", None), ("-1", None), ("soon", None), ("٣", None), ("9" * 99, 999999.0)],
)  # fmt: skip
def test_retry_after_is_read_in_seconds(text: str | None, seconds: float | None) -> None:
    assert retry_after(text) == seconds


@pytest.mark.parametrize(
    ("status", "key_rate", "expected"),
    [
        (401, None, Refuser.KEY),
        (403, 60.0, Refuser.KEY),
        (429, 60.0, Refuser.KEY),
        (429, None, Refuser.POOL),
        (503, 60.0, Refuser.POOL),
    ],
)
def test_a_key_is_refused_if_it_is_unknown_or_limited(
    status: int, key_rate: float | None, expected: Refuser
) -> None:
    assert refuser(status, key_rate) is expected


def test_a_key_is_gone_after_some_minutes() -> None:
    assert not key_is_gone(100.0, 99.0 + KEYLESS_SECONDS)
    assert key_is_gone(100.0, 100.0 + KEYLESS_SECONDS)
