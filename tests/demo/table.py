"""The live table of the demo, or plain lines without a terminal."""

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


def cells(moment: Moment) -> tuple[str, ...]:
    """Return a moment's cells in the order of `COLUMNS`; `-` is unknown."""
    return (
        str(moment.second),
        f"{moment.rate:.0f}",
        "-" if moment.waiting is None else f"{moment.waiting:.0f}",
        "-" if moment.duty is None else f"{moment.duty:.0%}",
        "-" if moment.cap is None else str(moment.cap),
        f"{moment.ready}/{moment.wanted}",
        "-" if moment.p99 is None else f"{moment.p99:.0f} ms",
        moment.decided,
        moment.why,
    )


def plain_line(moment: Moment, before: Moment | None) -> str:
    """Return one line of a log; it includes the decision only if that changed."""
    *numbers, _, why = cells(moment)
    news = why if before is None or before.why != why else ""
    return PLAIN.format(*numbers, news).rstrip()


def rich_table(rows: Sequence[Moment]) -> Table:
    """Return the table of the newest rows, without the reasons; the newest reason is printed below the table."""
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
    """Prints moments and remarks as a live table in a terminal, or as lines otherwise."""

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
        """Print a permanent line above the table."""
        self.console.print(text, style="bold", highlight=False, soft_wrap=True)

    def show(self, moment: Moment) -> None:
        """Add one second."""
        before = self.rows[-1] if self.rows else None
        self.rows.append(moment)
        if self._live is None:
            self.console.print(plain_line(moment, before), highlight=False, soft_wrap=True)
            return
        height = max(5, self.console.height - 10)
        newest = list(self.rows)[-height:]
        body = Group(rich_table(newest), Text(f"\nwhy: {moment.why or '-'}", style="italic"))
        panel = Panel(body, title=f"Penstock: {moment.act}", subtitle=_counts(moment))
        self._live.update(panel, refresh=True)


def _counts(moment: Moment) -> str:
    return f"sent {moment.sent}, refused {moment.refused}, lost {moment.lost}"
