"""The window of lines in flight: growth, rejections, pauses."""

from hypothesis import given
from hypothesis import strategies as st

from penstock_batches.dispatch.window import MAX_BACKOFF_SECONDS, START, Window


def test_it_doubles_in_a_round_until_the_first_rejection_and_then_grows_by_one() -> None:
    window = Window(100)
    for _ in range(4):
        window.answered()
    assert window.size == 2 * START
    window.rejected(0, None, 0)
    assert window.size == START
    for _ in range(4):
        window.answered()
    assert START + 0.8 < window.size <= START + 1


def test_it_never_exceeds_its_limit() -> None:
    window = Window(2)
    for _ in range(9):
        window.answered()
    assert window.places(0, 0) == 2
    assert window.places(2, 0) == window.places(9, 0) == 0


def test_a_rejection_pauses_for_what_the_pod_says() -> None:
    window = Window(10)
    assert window.rejected(100, 7, 0) == 107
    assert window.places(0, 106.9) == 0
    assert window.places(0, 107) == 2


def test_a_burst_of_rejections_counts_once() -> None:
    window = Window(100, size=64)
    for _ in range(64):
        window.rejected(100, 1, 0.5)
    assert window.size == 32


def test_rejections_in_a_row_back_off_and_an_answer_ends_it() -> None:
    window, now, pauses = Window(100), 0.0, []
    for _ in range(10):
        until = window.rejected(now, None, 0)
        pauses.append(until - now)
        now = until
    assert pauses[:4] == [0.25, 0.5, 1.0, 2.0]
    assert pauses[-1] == MAX_BACKOFF_SECONDS
    window.answered()
    assert window.rejected(now, None, 0) - now == 0.25


@given(st.lists(st.booleans()), st.integers(1, 300))
def test_one_line_may_always_be_sent_after_a_pause(answers: list[bool], limit: int) -> None:
    window, now = Window(limit), 0.0
    for answered in answers:
        if answered:
            window.answered()
        else:
            now = window.rejected(now, None, 1)
    assert 1 <= window.places(0, now) <= limit
