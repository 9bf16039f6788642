"""The table as it is printed."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.faults import outcome
from tests.bench.faults.outcome import Suffered, wrong_way_moves

COLUMNS = (
    "fault", "requests", "lost", "never sent", "refused", "wrong way", "recovered s", "worst p99 ms", "not as it must be",
)  # fmt: skip


def cells(one: Suffered) -> tuple[str, ...]:
    """Return a fault's cells, in the order of `COLUMNS`; `never sent` is a part of `lost`."""
    served, recovered = one.served, one.recovered_seconds
    moves = wrong_way_moves(one.valves, one.fault.right)
    counts = (served.requests, served.lost, served.unreached, served.refused, moves)
    return (
        one.fault.name,
        *map(str, counts),
        "-" if recovered is None else f"{recovered:.1f}",
        f"{served.worst_p99_milliseconds:.0f}",
        "; ".join(outcome.failures(one)),
    )


def line(one: Suffered) -> str:
    """Return one line of a log."""
    words = zip(COLUMNS[1:], cells(one)[1:], strict=True)
    return f"{one.fault.name}: " + ", ".join(f"{name} {value}" for name, value in words if value)


def rich_table(suffered: Sequence[Suffered]) -> Table:
    """Return the whole table."""
    table = Table(box=None, header_style="bold")
    first, *numbers, last = COLUMNS
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(last)
    for one in suffered:
        table.add_row(*cells(one))
    return table
