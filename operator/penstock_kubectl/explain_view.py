"""Page of `explain`: rich renderables of a pool's status and history, which is shown as small charts of block characters."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import isfinite, nan

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock_api.conditions import Condition, ConditionStatus
from penstock_api.types.decision import LastDecision
from penstock_api.types.status import CostStatus
from penstock_kubectl.cost_text import cost, replicas_cost
from penstock_kubectl.history import History
from penstock_kubectl.pool_context import PoolContext, policies_missing
from penstock_kubectl.status_text import (
    ACTION,
    GOOD_WHEN_FALSE,
    NO_ACTION,
    control_variables,
    demand,
    sentence,
    service,
    variants,
)

VERDICTS = {
    "MeetsObjective": "[green]meets the objective[/]",
    "MissesObjective": "[red]misses the objective[/]",
    "Saturated": "[red]saturated[/]",
    "NotPredicted": "[dim]not predicted[/]",
}
SERIES = (
    ("demand", "demand, rows/s"), ("pods", "pods"), ("cap", "batch cap"), ("waiting", "waiting"),
    ("p99", "p99 latency, s"),
)  # fmt: skip
MAX_EVENTS = 6
CHART_WIDTH = 56
BLOCKS = " ▁▂▃▄▅▆▇█"
UNKNOWN = "·"


def page(subject: PoolContext, past: History | None, why_no_past: str = "") -> RenderableType:
    """Return the whole page; `why_no_past` is the reason if there is no history."""
    parts: list[RenderableType] = [_head(subject), _conditions(subject), *_staleness(subject)]
    if subject.pool.spec.variants:
        parts.append(_pairs("Variants", variants(subject)))
        hint = (
            f"each variant's demand and law: kubectl penstock explain {subject.pool.name}-VARIANT"
        )
        parts.append(Text(hint, style="dim"))
    else:
        parts += [_pairs("Demand", demand(subject)), _pairs("Service", service(subject))]
        parts += [_pairs("Control variables", control_variables(subject))]
    parts += [_pairs("Cost", cost(subject))]
    status = subject.pool.status
    if status.last_decision is not None:
        parts += _decision(status.last_decision, status.cost)
    parts.append(_past(past) if past is not None else Text(why_no_past, style="dim"))
    parts += _events(subject)
    return Group(*parts)


def _head(subject: PoolContext) -> Panel:
    title = f"{subject.pool.namespace}/{subject.pool.name}"
    return Panel(Text(sentence(subject)), title=escape(title), title_align="left")


def _conditions(subject: PoolContext) -> RenderableType:
    conditions = subject.pool.status.conditions
    if not conditions:
        return Text("no operator has observed this pool yet", style="yellow")
    wrong = {
        (condition.reason, condition.message): condition
        for condition in reversed(conditions)  # the first of several with the same words stays
        if not healthy(condition)
    }
    if not wrong:
        return Text("all conditions healthy", style="green")
    table = Table(title="Unhealthy conditions", title_justify="left", show_header=False, box=None)
    for condition in reversed(wrong.values()):
        state = f"{condition.type} {condition.status.value}"
        table.add_row(f"[yellow]{state}[/]", escape(condition.reason), escape(condition.message))
    return table


def _staleness(subject: PoolContext) -> Iterator[RenderableType]:
    """Yield what makes the page differ from the pool as it is."""
    pool, observed = subject.pool, subject.pool.status.observed_generation
    if pool.deleting:
        yield Text("the pool is being deleted", style="yellow")
    if observed is not None and observed < pool.generation:
        behind = f"the operator has not observed the last edit: the status is of generation {observed}, the spec of {pool.generation}"
        yield Text(behind, style="yellow")
    if subject.lacks_policies:
        yield Text(policies_missing(subject), style="yellow")


def healthy(condition: Condition) -> bool:
    """Return whether a condition needs no attention; Progressing is good once it is settled, not where it is stuck."""
    if condition.type == "Progressing":
        return condition.reason in ("Settled", "Blocked")
    if condition.reason in NO_ACTION | ACTION:
        return condition.reason in NO_ACTION
    good_when_false = condition.type in GOOD_WHEN_FALSE
    return condition.status is (ConditionStatus.FALSE if good_when_false else ConditionStatus.TRUE)


def _pairs(title: str, pairs: Iterator[tuple[str, str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(style="dim")
    for name, value, note in pairs:
        table.add_row(name, escape(value), escape(note))
    return table


def _decision(last: LastDecision, cost: CostStatus | None) -> Iterator[RenderableType]:
    yield Text.assemble(
        ("Last decision ", "italic"), last.time, f"  {last.acted}", (f" by {last.algorithm}", "dim")
    )
    yield Text(f"  {last.message}")
    if last.asked:
        requested = "   ".join(f"{count.term} {count.replicas}" for count in last.asked)
        yield Text.assemble(("  replicas requested: ", "dim"), requested)
    if last.alternatives:
        yield _alternatives(last, cost)


def _alternatives(last: LastDecision, cost: CostStatus | None) -> Table:
    table = Table(title="Alternatives", title_justify="left", box=None)
    hour = f"{cost.currency or ''}/h" if cost is not None else "cost/h"
    for name in ("replicas", "cap", "devices", hour, "busy", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("at the forecast demand")
    for option in last.alternatives or ():
        chosen = option.replicas == last.replicas and option.cap == last.cap
        table.add_row(
            f"{option.replicas}", f"{option.cap}", f"{option.accelerators}",
            replicas_cost(cost, option.replicas), f"{option.utilization_percent} %",
            option.predicted_p99_milliseconds or "-", VERDICTS.get(option.verdict, escape(option.verdict)),
            style="bold" if chosen else "",
        )  # fmt: skip
    return table


def _past(past: History) -> Table:
    minutes = (past.span.end - past.span.start) / 60
    title = f"The last {minutes:.0f} min"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for name in ("", "", "min", "max", "now"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for name, label in SERIES:
        values = past.of(name)
        bounds = extent(values)
        if bounds is None:
            continue
        figures = (f"{bound:.4g}" for bound in bounds)
        (line,) = chart(values, CHART_WIDTH)
        table.add_row(label, f"[cyan]{line}[/]", *figures)
    if not table.row_count:
        table.add_row("Prometheus has no data for this pool in this period", "", "", "", "")
    return table


def _events(subject: PoolContext) -> Iterator[RenderableType]:
    if not subject.notes:
        return
    table = Table(title="Latest Events", title_justify="left", show_header=False, box=None)
    for event in subject.notes[:MAX_EVENTS]:
        color = "yellow" if event.type == "Warning" else "default"
        table.add_row(
            f"{event.time:%H:%M:%S}", f"[{color}]{escape(event.reason)}[/]", escape(event.message)
        )
    yield table


def shrunk(values: Sequence[float], width: int) -> list[float]:
    """Return at most `width` values, the maximum of each interval, so that bursts remain visible."""
    if len(values) <= width:
        return list(values)
    cuts = [round(index * len(values) / width) for index in range(width + 1)]
    parts = (values[a:b] for a, b in pairwise(cuts))
    return [max((value for value in part if isfinite(value)), default=nan) for part in parts]


def chart(values: Sequence[float], width: int = 60, height: int = 1) -> list[str]:
    """Return `height` lines of blocks from 0 to the maximum; unknown values are dots on the lowest line."""
    shown = shrunk(values, width)
    top = max((value for value in shown if isfinite(value)), default=0.0)
    return [_line(shown, top, level, height) for level in reversed(range(height))]


def _line(values: Sequence[float], top: float, level: int, height: int) -> str:
    return "".join(_block(value, top, level, height) for value in values)


def _block(value: float, top: float, level: int, height: int) -> str:
    if not isfinite(value):
        return UNKNOWN if level == 0 else " "
    full = len(BLOCKS) - 1
    filled = 0 if top <= 0 else round(value / top * full * height) - level * full
    return BLOCKS[max(min(filled, full), 1 if level == 0 and value > 0 else 0)]


def extent(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Return the minimum, the maximum and the last of the known values; None if there are none."""
    known = [value for value in values if isfinite(value)]
    return (min(known), max(known), known[-1]) if known else None
