"""Cost and attainment without each part of the law, and the table of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table

from penstock_simulator.outcome import RunSummary
from tests.bench.control import plan
from tests.bench.control.ablation import PARTS
from tests.bench.control.figures import case, geometric_mean
from tests.bench.control.jobs import Result

MIN_COST, MIN_POINTS = 0.01, 0.1
"""Relative GPU-hours, and points of attainment, from which on a part is worth its code."""


@dataclass(frozen=True, slots=True)
class Ablation:
    """Figures of the law without one part, relative to the whole law in the same cases."""

    part: str
    cost: float
    """Geometric mean of the GPU-hours' ratio over the traces with a target."""
    points: dict[str, float]
    """Change of attainment by trace, in percentage points: the worst over seeds."""

    @property
    def verdict(self) -> str:
        """Return what the figures say of the part."""
        part = PARTS[self.part]
        if self.cost - 1 >= MIN_COST or min(self.points.values()) <= -MIN_POINTS:
            return "needed"
        return f"kept: {part.kept}" if part.kept else "not shown to be needed"


def ablations(results: Iterable[Result]) -> list[Ablation]:
    """Return one row per part, the most expensive to lose first; parts without a run are left out."""
    known = [(result, result.outcome) for result in results if result.outcome is not None]
    whole = {case(result): outcome for result, outcome in known if result.job.ablated is None}
    rows = []
    for name in PARTS:
        runs = [
            (result.job.trace, outcome, whole[case(result)])
            for result, outcome in known
            if result.job.ablated == name and case(result) in whole
        ]
        if runs:
            rows.append(_row(name, runs))
    return sorted(rows, key=lambda row: row.cost, reverse=True)


def _row(name: str, runs: Sequence[tuple[str, RunSummary, RunSummary]]) -> Ablation:
    costs: list[float] = []
    points: dict[str, float] = {}
    for trace, after, before in runs:
        lost = 100 * (after.attainment - before.attainment)
        points[trace] = min(lost, points.get(trace, lost))
        if trace != plan.WITHOUT_TARGET:
            costs.append(after.gpu_hours / before.gpu_hours)
    return Ablation(name, geometric_mean(costs), points)


def table(rows: Sequence[Ablation]) -> Table:
    """Return the table of the ablations."""
    shown = Table(title=f"{plan.DEFAULT} without each of its parts", title_justify="left")
    shown.add_column("part", no_wrap=True)
    for name in ("lines <=", "GPU-hours", *plan.TRACES):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("verdict")
    for row in rows:
        points = (
            f"{row.points[trace]:+.2f}" if trace in row.points else "-" for trace in plan.TRACES
        )
        change = f"{100 * (row.cost - 1):+.1f} %"
        shown.add_row(row.part, str(PARTS[row.part].lines), change, *points, row.verdict)
    shown.caption = "traces: change of attainment in points, the worst seed"
    return shown
