"""The bench's tables."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.control import plan
from tests.bench.control.figures import Change, TargetFigure, TraceRow
from tests.bench.control.jobs import Result


def laws(rows: Sequence[TraceRow], best: dict[str, str]) -> Table:
    """Return the table of laws by trace."""
    found = Table(
        title="laws by trace: least attainment, geometric mean cost", title_justify="left"
    )
    for name in ("trace", "law"):
        found.add_column(name, no_wrap=True)
    for name in ("attained", "target", "worst 5 min", "GPU-h", "x fluid", "most", "turns/h"):
        found.add_column(name, justify="right", no_wrap=True)
    before = ""
    for row in sorted(rows, key=lambda one: (one.trace, one.gpu_hours)):
        if row.trace != before:
            found.add_section()
            before = row.trace
        mark = " *" if best.get(row.trace) == row.law else ""
        style = "green" if row.attainment >= plan.ATTAINED else "red"
        target = "-" if row.trace == plan.WITHOUT_TARGET else f">= {100 * plan.ATTAINED:.0f} %"
        found.add_row(
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
    found.caption = "* best single setting, tuned on the other traces; most: GPUs held at once"
    return found


def targets(figures: Sequence[TargetFigure]) -> Table:
    """Return figure beside target."""
    found = Table(title=f"{plan.DEFAULT} against its targets", title_justify="left")
    for name in ("figure", "measured", "target", ""):
        found.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    for one in figures:
        mark = "[green]met[/]" if one.met else "[red]missed[/]"
        found.add_row(one.name, f"{one.measured:.4g}", f"{one.sign} {one.target:g}", mark)
    return found


def bounds(
    rows: Sequence[TraceRow], clairvoyant: dict[str, float], oracle: dict[str, str]
) -> Table:
    """Return the default law's cost beside both bounds and the best setting for each trace."""
    found = Table(title=f"{plan.DEFAULT} beside its bounds, GPU-hours", title_justify="left")
    found.add_column("trace", no_wrap=True)
    for name in ("fluid", "clairvoyant", "law", "law / clairvoyant", "oracle setting", "GPU-h"):
        found.add_column(name, justify="right", no_wrap=True)
    by_law = {(row.trace, row.law): row for row in rows}
    for trace in plan.AIMED:
        ours, best = by_law[trace, plan.DEFAULT], by_law.get((trace, oracle.get(trace, "")))
        bound = clairvoyant.get(trace)
        found.add_row(
            trace,
            f"{ours.fluid_gpu_hours:.2f}",
            "-" if bound is None else f"{bound:.2f}",
            f"{ours.gpu_hours:.2f}",
            "-" if bound is None else f"{ours.gpu_hours / bound:.2f}",
            oracle.get(trace, "none attains"),
            "-" if best is None else f"{best.gpu_hours:.2f}",
        )
    return found


def changes(found: Sequence[Change]) -> Table:
    """Return what the law's defaults are worth."""
    table = Table(
        title=f"each default of {plan.DEFAULT} a quarter less, and more", title_justify="left"
    )
    table.add_column("default", no_wrap=True)
    for name in ("times", "cost", "target", "least attained"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        style = "green" if abs(one.cost - 1) < plan.SENSITIVITY_TARGET else "red"
        table.add_row(
            one.name,
            f"{one.factor:g}",
            f"[{style}]{100 * (one.cost - 1):+.1f} %[/]",
            f"< {100 * plan.SENSITIVITY_TARGET:g} %",
            f"{100 * one.attainment:.2f} %",
        )
    return table


def variants(results: Sequence[tuple[str, Result]]) -> Table:
    """Return the default law under other routings and bad signals."""
    found = Table(title=f"{plan.DEFAULT}, other worlds (seed 1)", title_justify="left")
    for name in ("world", "trace"):
        found.add_column(name, no_wrap=True)
    for name in ("attained", "worst 5 min", "GPU-h", "turns/h"):
        found.add_column(name, justify="right", no_wrap=True)
    for name, one in results:
        if one.outcome is not None:
            found.add_row(
                name,
                one.job.trace,
                f"{100 * one.outcome.attainment:.2f} %",
                f"{100 * one.outcome.worst_five_minutes:.1f} %",
                f"{one.outcome.gpu_hours:.2f}",
                f"{one.outcome.reversals_per_hour:.1f}",
            )
    return found
