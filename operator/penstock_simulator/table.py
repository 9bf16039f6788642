"""Runs as tables for people, and as JSON for programs. An edge."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from penstock_simulator.outcome import RunSummary

ATTAINED = 0.99
COLUMNS = ("law", "attained", "worst 5 min", "GPU-h", "x fluid", "p50 ms", "p99 ms", "replicas", "most", "cap", "turns/h")  # fmt: skip


def table(title: str, outcomes: Iterable[RunSummary], fluid_gpu_hours: float) -> Table:
    """Return one row a run; a run that attains its objective is green."""
    found = Table(title=title, title_justify="left")
    for index, column in enumerate(COLUMNS):
        found.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for one in outcomes:
        style = "green" if one.attainment >= ATTAINED else "red"
        cells = list(_cells(one, fluid_gpu_hours))
        cells[1] = f"[{style}]{cells[1]}[/]"
        found.add_row(*cells)
    found.caption = f"fluid bound {fluid_gpu_hours:.2f} GPU-h; attained is of all received requests"
    return found


def _cells(one: RunSummary, fluid: float) -> Sequence[str]:
    return (
        one.law,
        f"{100 * one.attainment:.2f} %",
        f"{100 * one.worst_five_minutes:.1f} %",
        f"{one.gpu_hours:.2f}",
        f"{one.gpu_hours / fluid:.2f}" if fluid > 0 else "-",
        f"{1000 * one.p50_seconds:.0f}",
        f"{1000 * one.p99_seconds:.0f}",
        f"{one.mean_replicas:.1f}",
        f"{one.most_replicas}",
        f"{one.mean_cap:.1f}",
        f"{one.reversals_per_hour:.1f}",
    )
