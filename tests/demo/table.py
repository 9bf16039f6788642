"""The live table, or plain lines where nobody watches a terminal."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tests.demo.moment import Moment

COLUMNS = ("s", "req/s", "queue", "duty", "cap", "ready", "p99", "decided", "why")
PLAIN = "{:>4} {:>6} {:>6} {:>5} {:>4} {:>6} {:>8}  {}"


def cells(one: Moment) -> tuple[str, ...]:
    """Return a moment's cells, in the order of `COLUMNS`; `-` is unknown."""
    return (
        str(one.second),
        f"{one.rate:.0f}",
        "-" if one.waiting is None else f"{one.waiting:.0f}",
        "-" if one.duty is None else f"{one.duty:.0%}",
        "-" if one.cap is None else str(one.cap),
        f"{one.ready}/{one.wanted}",
        "-" if one.p99 is None else f"{one.p99:.0f} ms",
        one.decided,
        one.why,
    )


def plain_line(one: Moment, before: Moment | None) -> str:
    """Return one line of a log; the decision only where it is news."""
    *numbers, _, why = cells(one)
    news = why if before is None or before.why != why else ""
    return PLAIN.format(*numbers, news).rstrip()


def rich_table(rows: Sequence[Moment]) -> Table:
    """Return the table of the newest rows; the newest why stands below it, whole."""
    table = Table(expand=True, pad_edge=False, box=None, header_style="bold")
    *numbers, decided, _ = COLUMNS
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(decided, ratio=1, no_wrap=True, overflow="ellipsis", style="cyan")
    for row in rows:
        table.add_row(*cells(row)[:-1], style="red" if row.lost else "")
    return table


@dataclass(slots=True)
class Screen:
    """Shows moments and remarks: a live table in a terminal, lines elsewhere."""

    console: Console
    rows: deque[Moment] = field(default_factory=deque)
    act: str = ""
    _live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        else:
            self.console.print(PLAIN.format(*COLUMNS[:-2], "decided, and why (when new)"))
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def remark(self, text: str) -> None:
        """Print a line that stays, above the table."""
        self.console.print(text, style="bold", highlight=False, soft_wrap=True)

    def show(self, one: Moment) -> None:
        """Add one second."""
        before = self.rows[-1] if self.rows else None
        self.rows.append(one)
        if self._live is None:
            self.console.print(plain_line(one, before), highlight=False, soft_wrap=True)
            return
        height = max(5, self.console.height - 10)
        newest = list(self.rows)[-height:]
        body = Group(rich_table(newest), Text(f"\nwhy: {one.why or '-'}", style="italic"))
        panel = Panel(body, title=f"Penstock: {one.act}", subtitle=_counts(one))
        self._live.update(panel, refresh=True)


def _counts(one: Moment) -> str:
    return f"sent {one.sent}, refused {one.refused}, lost {one.lost}"
