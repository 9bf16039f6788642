"""Tables of the control bench."""

from collections.abc import Sequence
from math import isnan

from rich.table import Table

from tests.bench.control import plan
from tests.bench.control.figures import Change, TargetFigure, TraceRow
from tests.bench.control.jobs import Result


def laws(rows: Sequence[TraceRow], best: dict[str, str]) -> Table:
    """Return the table of laws by trace."""
    table = Table(
        title="laws by trace: least attainment, geometric mean cost", title_justify="left"
    )
    for name in ("trace", "law"):
        table.add_column(name, no_wrap=True)
    for name in ("attained", "target", "worst 5 min", "GPU-h", "x fluid", "most", "turns/h"):
        table.add_column(name, justify="right", no_wrap=True)
    before = ""
    for row in sorted(rows, key=lambda entry: (entry.trace, entry.gpu_hours)):
        if row.trace != before:
            table.add_section()
            before = row.trace
        mark = " *" if best.get(row.trace) == row.law else ""
        style = "green" if row.attainment >= plan.ATTAINED else "red"
        target = "-" if row.trace == plan.WITHOUT_TARGET else f">= {100 * plan.ATTAINED:.0f} %"
        table.add_row(
            row.trace,
            f"[bold]{row.law}[/]{mark}" if row.law == plan.DEFAULT else row.law + mark,
            f"[{style}]{100 * row.attainment:.2f} %[/]",
            target,
            f"{100 * row.worst_five_minutes:.1f} %",
            f"{row.gpu_hours:.2f}",
            f"{row.gpu_hours / row.fluid_gpu_hours:.2f}",
            str(row.most_replicas),
            f"{row.reversals_per_hour:.1f}",
        )
    table.caption = "* best single setting, tuned on the other traces; most: largest number of GPUs"
    return table


def targets(figures: Sequence[TargetFigure]) -> Table:
    """Return the table of figures and targets."""
    table = Table(title=f"{plan.DEFAULT} against its targets", title_justify="left")
    for name in ("figure", "measured", "target", ""):
        table.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    for figure in figures:
        mark = "[green]met[/]" if figure.met else "[red]missed[/]"
        measured = f"{figure.measured:.4g}"
        if isnan(figure.measured):
            measured, mark = "-", "not measured"
        table.add_row(figure.name, measured, f"{figure.sign} {figure.target:g}", mark)
    return table


def bounds(
    rows: Sequence[TraceRow], clairvoyant: dict[str, float], oracle: dict[str, str] | None
) -> Table:
    """Return the default law's cost compared with both bounds and the best setting for each trace; None: not searched."""
    table = Table(title=f"{plan.DEFAULT} compared with its bounds, GPU-hours", title_justify="left")
    table.add_column("trace", no_wrap=True)
    for name in ("fluid", "clairvoyant", "law", "law / clairvoyant", "oracle setting", "GPU-h"):
        table.add_column(name, justify="right", no_wrap=True)
    by_law = {(row.trace, row.law): row for row in rows}
    for trace in plan.AIMED:
        setting = "not searched" if oracle is None else oracle.get(trace, "none attains")
        ours, best = by_law[trace, plan.DEFAULT], by_law.get((trace, setting))
        bound = clairvoyant.get(trace)
        table.add_row(
            trace,
            f"{ours.fluid_gpu_hours:.2f}",
            "-" if bound is None else f"{bound:.2f}",
            f"{ours.gpu_hours:.2f}",
            "-" if bound is None else f"{ours.gpu_hours / bound:.2f}",
            setting,
            "-" if best is None else f"{best.gpu_hours:.2f}",
        )
    return table


def changes(rows: Sequence[Change]) -> Table:
    """Return the table of the sensitivity to the law's defaults."""
    table = Table(
        title=f"each default of {plan.DEFAULT} a quarter less, and more", title_justify="left"
    )
    table.add_column("default", no_wrap=True)
    for name in ("times", "cost", "target", "least attained"):
        table.add_column(name, justify="right", no_wrap=True)
    for change in rows:
        style = "green" if abs(change.cost - 1) < plan.SENSITIVITY_TARGET else "red"
        table.add_row(
            change.name,
            f"{change.factor:g}",
            f"[{style}]{100 * (change.cost - 1):+.1f} %[/]",
            f"< {100 * plan.SENSITIVITY_TARGET:g} %",
            f"{100 * change.attainment:.2f} %",
        )
    return table


def variants(results: Sequence[tuple[str, Result]]) -> Table:
    """Return the table of the default law with other routings and bad signals."""
    table = Table(title=f"{plan.DEFAULT}, other worlds (seed 1)", title_justify="left")
    for name in ("world", "trace"):
        table.add_column(name, no_wrap=True)
    for name in ("attained", "worst 5 min", "GPU-h", "turns/h"):
        table.add_column(name, justify="right", no_wrap=True)
    for name, result in results:
        if result.outcome is not None:
            table.add_row(
                name,
                result.job.trace,
                f"{100 * result.outcome.attainment:.2f} %",
                f"{100 * result.outcome.worst_five_minutes:.1f} %",
                f"{result.outcome.gpu_hours:.2f}",
                f"{result.outcome.reversals_per_hour:.1f}",
            )
    return table
