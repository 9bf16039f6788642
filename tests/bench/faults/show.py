"""The printed fault table."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.faults import outcome
from tests.bench.faults.outcome import Suffered, wrong_way_moves

COLUMNS = (
    "fault", "requests", "lost", "never sent", "refused", "wrong way", "recovered s", "worst p99 ms", "failures",
)  # fmt: skip


def cells(result: Suffered) -> tuple[str, ...]:
    """Return a fault's cells, in the order of `COLUMNS`; `never sent` is a part of `lost`."""
    served, recovered = result.served, result.recovered_seconds
    moves = wrong_way_moves(result.valves, result.fault.right)
    counts = (served.requests, served.lost, served.unreached, served.refused, moves)
    return (
        result.fault.name,
        *map(str, counts),
        "-" if recovered is None else f"{recovered:.1f}",
        f"{served.worst_p99_milliseconds:.0f}",
        "; ".join(outcome.failures(result)),
    )


def line(result: Suffered) -> str:
    """Return one line of a log."""
    words = zip(COLUMNS[1:], cells(result)[1:], strict=True)
    return f"{result.fault.name}: " + ", ".join(f"{name} {value}" for name, value in words if value)


def rich_table(suffered: Sequence[Suffered]) -> Table:
    """Return the whole table."""
    table = Table(box=None, header_style="bold")
    first, *numbers, last = COLUMNS
    table.add_column(first, no_wrap=True)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(last)
    for result in suffered:
        table.add_row(*cells(result))
    return table
