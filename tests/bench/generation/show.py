"""Tables of the generation bench: tokens a second, ratios, and targets."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.generation.calibration import Calibration
from tests.bench.generation.neighbor import Neighbor
from tests.bench.generation.planning import PlanningTime
from tests.bench.generation.runs import PeerOutcome
from tests.bench.generation.targets import TargetLine
from tests.bench.generation.workload import CONCURRENCY, LINES

OWN = "penstock"


def rates(outcomes: Sequence[PeerOutcome]) -> Table:
    """Return a table of every peer's tokens a second, with our rate as a multiple in brackets."""
    model, dtype = outcomes[0].model, outcomes[0].dtype
    table = Table(
        title=f"{model}, {dtype}: tokens/s (ours as a multiple of it)", title_justify="left"
    )
    table.add_column("peer", no_wrap=True)
    for name in (f"{line} {n}" for line in LINES for n in CONCURRENCY):
        table.add_column(name, justify="right")
    ours = next((outcome for outcome in outcomes if outcome.peer == OWN), outcomes[0])
    for outcome in outcomes:
        cells = [_cell(outcome, ours, line, n) for line in LINES for n in CONCURRENCY]
        table.add_row(outcome.peer, *cells)
    table.caption = "; ".join(
        f"{outcome.peer}: {outcome.absent or outcome.about}" for outcome in outcomes
    )
    return table


def _cell(outcome: PeerOutcome, ours: PeerOutcome, line: str, concurrency: int) -> str:
    rate, own = outcome.rate(line, concurrency), ours.rate(line, concurrency)
    if rate is None:
        return "-"
    ratio = "" if outcome is ours or own is None else f" ({own / rate:.2f})"
    return f"{rate:,.0f}{ratio}"


def planning(times: Sequence[PlanningTime]) -> Table:
    """Return the table of planning times of a step; the target is at most 300 us."""
    table = Table(
        title="planning a step, 64 running, 10,000 waiting: microseconds (target 300)",
        title_justify="left",
    )
    for name in ("discipline", "plan, median", "plan, p99", "settle, median"):
        table.add_column(name, justify="left" if name == "discipline" else "right")
    for planning_time in times:
        table.add_row(
            planning_time.discipline,
            f"{planning_time.plan_median:.0f}",
            f"{planning_time.plan_p99:.0f}",
            f"{planning_time.settle_median:.0f}",
        )
    return table


def verdicts(lines: Sequence[TargetLine]) -> Table:
    """Return every line with its target; ratios by CPU time, which are robust on a busy machine, are in brackets."""
    met, missed = (sum(line.met is verdict for line in lines) for verdict in (True, False))
    absent = sum(line.measured is None for line in lines)
    table = Table(
        title=f"targets: {met} met, {missed} missed, {absent} not measured",
        title_justify="left",
    )
    for name in ("line", "measured", "target", ""):
        table.add_column(name, justify="left" if name == "line" else "right", no_wrap=True)
    for target in lines:
        measured = "-" if target.measured is None else f"{target.measured:.3g}"
        by_cpu = "" if target.by_cpu_time is None else f" ({target.by_cpu_time:.2f})"
        word = {True: "met", False: "missed", None: "-"}[target.met]
        sign = "<=" if target.at_most else ">="
        bound = "" if target.bound is None else f"{sign} {target.bound:g}"
        table.add_row(target.name, measured + by_cpu, bound, word)
    return table


def dtypes(measured: Sequence[str], *, has_bfloat16: bool) -> str:
    """Return a line with the measured dtypes, and the reason if bfloat16 is not one of them."""
    if "bfloat16" in measured:
        return f"{' and '.join(measured)}, never compared with each other"
    why = "--dtypes" if has_bfloat16 else "this CPU has neither AVX512_BF16 nor AMX"
    return f"{' and '.join(measured)}; bfloat16 is left out: {why}"


def neighbor(model: str, busy: Neighbor | None) -> str:
    """Return a line with the cost of a busy neighbor process."""
    if busy is None:
        return f"{model}: next to a busy neighbor: not measured, there is no other core"
    return (
        f"{model}: in-process {busy.alone:,.0f} tokens/s, {busy.with_neighbor:,.0f} next to a busy neighbor"
        f" on another core ({busy.share:.3f})"
    )


def calibration(machine: Calibration, threads: int) -> str:
    """Return the machine in one line."""
    return (
        f"{threads} thread(s): memory {machine.memory_gb_per_second:.1f} GB/s,"
        f" GEMM {machine.gemm_gflop_per_second:.0f} GFLOP/s"
    )
