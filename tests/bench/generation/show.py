"""The bench's tables: tokens a second, ratios of one run, and the targets beside them."""

from collections.abc import Sequence

from rich.table import Table

from tests.bench.generation.calibration import Calibration
from tests.bench.generation.neighbour import Neighbour
from tests.bench.generation.planning import PlanningTime
from tests.bench.generation.runs import PeerOutcome
from tests.bench.generation.targets import TargetLine
from tests.bench.generation.workload import CONCURRENCY, LINES

OWN = "penstock"


def rates(outcomes: Sequence[PeerOutcome]) -> Table:
    """Return every peer's tokens a second; in brackets ours as a multiple of it."""
    model, dtype = outcomes[0].model, outcomes[0].dtype
    table = Table(
        title=f"{model}, {dtype}: tokens/s (ours as a multiple of it)", title_justify="left"
    )
    table.add_column("peer", no_wrap=True)
    for name in (f"{line} {n}" for line in LINES for n in CONCURRENCY):
        table.add_column(name, justify="right")
    ours = next((one for one in outcomes if one.peer == OWN), outcomes[0])
    for one in outcomes:
        cells = [_cell(one, ours, line, n) for line in LINES for n in CONCURRENCY]
        table.add_row(one.peer, *cells)
    table.caption = "; ".join(f"{one.peer}: {one.absent or one.about}" for one in outcomes)
    return table


def _cell(one: PeerOutcome, ours: PeerOutcome, line: str, concurrency: int) -> str:
    rate, own = one.rate(line, concurrency), ours.rate(line, concurrency)
    if rate is None:
        return "-"
    ratio = "" if one is ours or own is None else f" ({own / rate:.2f})"
    return f"{rate:,.0f}{ratio}"


def planning(times: Sequence[PlanningTime]) -> Table:
    """Return how long a step takes to plan; at most 300 us is asked for."""
    table = Table(
        title="planning a step, 64 running, 10,000 waiting: microseconds (target 300)",
        title_justify="left",
    )
    for name in ("discipline", "plan, median", "plan, p99", "settle, median"):
        table.add_column(name, justify="left" if name == "discipline" else "right")
    for one in times:
        table.add_row(
            one.discipline,
            f"{one.plan_median:.0f}",
            f"{one.plan_p99:.0f}",
            f"{one.settle_median:.0f}",
        )
    return table


def verdicts(found: Sequence[TargetLine]) -> Table:
    """Return every line with its target; by CPU time a token in brackets, as a busy machine's clock tells little."""
    met, missed = (sum(one.met is verdict for one in found) for verdict in (True, False))
    absent = sum(one.measured is None for one in found)
    table = Table(
        title=f"targets: {met} met, {missed} missed, {absent} not measured",
        title_justify="left",
    )
    for name in ("line", "measured", "target", ""):
        table.add_column(name, justify="left" if name == "line" else "right", no_wrap=True)
    for one in found:
        measured = "-" if one.measured is None else f"{one.measured:.3g}"
        by_cpu = "" if one.by_cpu_time is None else f" ({one.by_cpu_time:.2f})"
        word = {True: "met", False: "missed", None: "-"}[one.met]
        sign = "<=" if one.at_most else ">="
        bound = "" if one.bound is None else f"{sign} {one.bound:g}"
        table.add_row(one.name, measured + by_cpu, bound, word)
    return table


def dtypes(measured: Sequence[str], *, has_bfloat16: bool) -> str:
    """Return which were measured, and why bfloat16 was not."""
    if "bfloat16" in measured:
        return f"{' and '.join(measured)}, never compared with each other"
    why = "--dtypes" if has_bfloat16 else "this CPU has neither AVX512_BF16 nor AMX"
    return f"{' and '.join(measured)}; bfloat16 is left out: {why}"


def neighbour(model: str, found: Neighbour | None) -> str:
    """Return what another busy process costs the engine, in one line."""
    if found is None:
        return f"{model}: next to a busy neighbour: not measured, there is no other core"
    return (
        f"{model}: in-process {found.alone:,.0f} tokens/s, {found.beside:,.0f} next to a busy neighbour"
        f" on another core ({found.share:.3f})"
    )


def calibration(found: Calibration, threads: int) -> str:
    """Return the machine in one line."""
    return (
        f"{threads} thread(s): memory {found.memory_gb_per_second:.1f} GB/s,"
        f" GEMM {found.gemm_gflop_per_second:.0f} GFLOP/s"
    )
