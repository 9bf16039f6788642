"""The bench's tables."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.control import plan
from tests.bench.control.figures import Row, Score
from tests.bench.control.jobs import Result


def laws(rows: Sequence[Row], best: dict[str, str]) -> Table:
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


def targets(score: Score) -> Table:
    """Return figure beside target."""
    found = Table(title=f"{plan.DEFAULT} against its targets", title_justify="left")
    for name in ("figure", "measured", "target"):
        found.add_column(name, justify="left" if name == "figure" else "right", no_wrap=True)
    found.add_row(
        "least attainment", f"{100 * score.attainment:.2f} %", f">= {100 * plan.ATTAINED:.0f} %"
    )
    cost = f"<= {plan.COST_TARGET:.2f} (least {plan.COST_LEAST:.2f})"
    found.add_row("GPU-hours / clairvoyant", f"{score.over_clairvoyant:.2f}", cost)
    for name, target in plan.GAP_TARGETS.items():
        found.add_row(f"gap closed to {name}", f"{score.gaps_closed[name]:.2f}", f">= {target:.2f}")
    return found


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
