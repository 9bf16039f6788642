"""The table in a terminal, and lines in a log."""

import io
import json
from dataclasses import replace

from rich.console import Console

from tests.demo.moment import Moment
from tests.demo.story import MORE_REPLICAS, SMALLER_BATCHES
from tests.demo.table import Screen, cells, plain_line

ONE = Moment(
    second=7, act="the load rises", rate=150, p99=1234.5, sent=900, refused=1, lost=0, waiting=42,
    duty=0.987, cap=8, ready=2, wanted=4, decided="cap 8 Held, n 4 QueueDepth",
    why="80 waiting over 2 replicas",
)  # fmt: skip


def screen(*, terminal: bool) -> tuple[Screen, io.StringIO]:
    written = io.StringIO()
    console = Console(file=written, force_terminal=terminal, width=120, height=30)
    return Screen(console), written


def test_what_is_unknown_is_a_dash() -> None:
    bare = replace(ONE, waiting=None, duty=None, cap=None, p99=None)
    assert cells(bare)[2:7] == ("-", "-", "-", "2/4", "-")


def test_a_log_line_contains_a_decision_only_when_it_changed() -> None:
    assert "80 waiting" in plain_line(ONE, None)
    assert "80 waiting" not in plain_line(replace(ONE, second=8), ONE)


def test_output_without_a_terminal_is_plain_lines() -> None:
    shown, written = screen(terminal=False)
    with shown:
        shown.show(ONE)
        shown.remark("an edit")
    assert "\x1b" not in written.getvalue()
    assert len(written.getvalue().splitlines()) == 3


def test_in_a_terminal_there_is_a_table() -> None:
    shown, written = screen(terminal=True)
    with shown:
        for number in range(50):
            shown.show(replace(ONE, second=number))
    assert "the load rises" in written.getvalue()


def test_edits_are_commands_that_anybody_can_type() -> None:
    *head, patch = SMALLER_BATCHES.command()
    assert head[:4] == ["patch", "pspool", "sample", "-n"]
    assert json.loads(patch)["spec"]["batching"]["size"]["max"] == 6
    assert "-n" not in MORE_REPLICAS.command()
