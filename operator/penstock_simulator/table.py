"""Table of simulated runs. An edge."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from penstock_simulator.outcome import RunSummary

ATTAINED = 0.99
COLUMNS = ("law", "attained", "worst 5 min", "GPU-h", "x fluid", "p50 ms", "p99 ms", "replicas", "most", "cap", "turns/h")  # fmt: skip


def table(title: str, outcomes: Iterable[RunSummary], fluid_gpu_hours: float) -> Table:
    """Return a table with one row per run; runs that attain the objective are green."""
    view = Table(title=title, title_justify="left")
    for index, column in enumerate(COLUMNS):
        view.add_column(column, justify="left" if index == 0 else "right", no_wrap=True)
    for result in outcomes:
        style = "green" if result.attainment >= ATTAINED else "red"
        cells = list(_cells(result, fluid_gpu_hours))
        cells[1] = f"[{style}]{cells[1]}[/]"
        view.add_row(*cells)
    view.caption = f"fluid bound {fluid_gpu_hours:.2f} GPU-h; attained is of all received requests"
    return view


def _cells(result: RunSummary, fluid: float) -> Sequence[str]:
    return (
        result.law,
        f"{100 * result.attainment:.2f} %",
        f"{100 * result.worst_five_minutes:.1f} %",
        f"{result.gpu_hours:.2f}",
        f"{result.gpu_hours / fluid:.2f}" if fluid > 0 else "-",
        f"{1000 * result.p50_seconds:.0f}",
        f"{1000 * result.p99_seconds:.0f}",
        f"{result.mean_replicas:.1f}",
        f"{result.most_replicas}",
        f"{result.mean_cap:.1f}",
        f"{result.reversals_per_hour:.1f}",
    )
