"""Stop strings and markers are recognized in any pieces, with constant work per character."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_runtime.text.marker_finder import MarkerFinder
from penstock_runtime.text.stop_strings import StopMatch, StopMatcher
from penstock_runtime.text.string_automaton import StringAutomaton, StringMatch
from tests.unit.runtime.text.pieces import pieces_of

STOPS = st.lists(st.text("ab\U00010300", min_size=1, max_size=9), min_size=1, max_size=6)
TEXT = st.text("ab\U00010300", max_size=60)
CUTS = st.lists(st.integers(0, 99), max_size=12)
OFTEN = settings(max_examples=400)


def first_of(text: str, stops: tuple[str, ...]) -> tuple[int, int] | None:
    """Return where the first stop string starts, and its index."""
    places = [(text.find(stop), order) for order, stop in enumerate(stops)]
    return min((place for place in places if place[0] >= 0), default=None)


def begun(text: str, stops: tuple[str, ...]) -> int:
    """Return the length of the longest end of `text` that begins a stop string."""
    return max(n for stop in stops for n in range(len(stop) + 1) if text.endswith(stop[:n]))


def lines_of(work: Callable[[], object]) -> int:
    """Return how many lines of Python `work` executes."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> Any:
        nonlocal count
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@OFTEN
@given(STOPS.map(tuple), TEXT, CUTS, st.booleans())
def test_every_piece_of_a_text_is_answered_as_by_str_find(
    stops: tuple[str, ...], text: str, cuts: list[int], include: bool
) -> None:
    matcher, rest = StopMatcher(stops, include=include), ""
    for piece in pieces_of(text, cuts):
        rest += piece
        first = first_of(rest, stops)
        if first is not None:
            start, stop = first[0], stops[first[1]]
            end = start + len(stop) if include else start
            assert matcher.add(piece) == StopMatch(rest[:end], stop)
            return
        keep = begun(rest, stops)
        assert matcher.add(piece) == StopMatch(rest[: len(rest) - keep])
        rest = rest[len(rest) - keep :]
    assert matcher.finish() == rest


@OFTEN
@given(STOPS.map(tuple), TEXT, CUTS)
def test_a_state_is_the_longest_end_of_the_text_that_begins_a_string(
    strings: tuple[str, ...], text: str, cuts: list[int]
) -> None:
    automaton, state, seen = StringAutomaton(strings), 0, ""
    for piece in pieces_of(text, cuts):
        state, match = automaton.scan(state, piece)
        first = first_of(seen + piece, strings)
        if first is not None:
            assert match == StringMatch(first[0] - len(seen), first[1])
            return
        seen += piece
        assert match is None
        assert automaton.depth(state) == begun(seen, strings)


@OFTEN
@given(TEXT, st.text("ab\U00010300", min_size=1, max_size=5), CUTS)
def test_a_marker_is_found_where_partition_finds_it(text: str, marker: str, cuts: list[int]) -> None:  # fmt: skip
    finder, before, after = MarkerFinder(marker), "", None
    for piece in pieces_of(text, cuts):
        if after is not None:
            after += piece
            continue
        cut = finder.add(piece)
        before, after = before + cut.before, cut.after
    if after is None:
        before += finder.finish()
    assert (before, after or "") == text.partition(marker)[::2]
    assert (after is None) == (marker not in text)


def test_many_long_stop_strings_cost_as_much_per_character_as_one() -> None:
    stops, token = tuple(" " * 1000 + chr(0x100 + order) for order in range(32)), " " * 128

    def lines(some: tuple[str, ...]) -> int:
        matcher = StopMatcher(some)
        for _ in range(10):
            matcher.add(token)
        return lines_of(lambda: matcher.add(token))

    assert lines(stops) <= 1.1 * lines(stops[:1])


def test_a_stop_string_is_included_on_request() -> None:
    step = StopMatcher(("!",), include=True).add("yes! no")
    assert (step.text, step.stop) == ("yes!", "!")
