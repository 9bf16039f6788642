"""The page that `explain` shows: rich renderables of a pool's status and history. An edge."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock_api.conditions import Condition, ConditionStatus
from penstock_api.types.decision import LastDecision
from penstock_kubectl.history import History
from penstock_kubectl.pool_context import PoolContext
from penstock_kubectl.sparkline import chart, extent
from penstock_kubectl.status_text import GOOD_WHEN_FALSE, demand, sentence, service, valves

VERDICTS = {
    "MeetsObjective": "[green]meets the objective[/]",
    "MissesObjective": "[red]misses the objective[/]",
    "Saturated": "[red]saturated[/]",
    "NotPredicted": "[dim]not foretold[/]",
}
SERIES = (
    ("demand", "rows/s asked"), ("pods", "pods"), ("cap", "batch cap"), ("waiting", "waiting"),
    ("p99", "p99 latency, s"),
)  # fmt: skip
LATEST_EVENTS = 6
CHART_WIDTH = 56


def page(subject: PoolContext, past: History | None, why_no_past: str = "") -> RenderableType:
    """Return the whole page; `why_no_past` where there is no history to show."""
    parts: list[RenderableType] = [_head(subject), _conditions(subject)]
    parts += [_pairs("Demand", demand(subject)), _pairs("Service", service(subject))]
    parts += [_pairs("Valves", valves(subject))]
    if subject.pool.status.last_decision is not None:
        parts += _decision(subject.pool.status.last_decision)
    parts.append(_past(past) if past is not None else Text(why_no_past, style="dim"))
    parts += _events(subject)
    return Group(*parts)


def _head(subject: PoolContext) -> Panel:
    title = f"{subject.pool.namespace}/{subject.pool.name}"
    return Panel(Text(sentence(subject)), title=escape(title), title_align="left")


def _conditions(subject: PoolContext) -> RenderableType:
    held = subject.pool.status.conditions or ()
    wrong = [one for one in held if not _good(one)]
    if not wrong:
        return Text("all conditions are as they should be", style="green")
    table = Table(title="Conditions to look at", title_justify="left", show_header=False, box=None)
    for one in wrong:
        what = f"{one.type} {one.status.value}"
        table.add_row(f"[yellow]{what}[/]", escape(one.reason), escape(one.message))
    return table


def _good(one: Condition) -> bool:
    wanted = ConditionStatus.FALSE if one.type in GOOD_WHEN_FALSE else ConditionStatus.TRUE
    return one.status is wanted


def _pairs(title: str, pairs: Iterator[tuple[str, str, str]]) -> Table:
    table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="bold")
    table.add_column(style="dim")
    for name, value, note in pairs:
        table.add_row(name, escape(value), escape(note))
    return table


def _decision(last: LastDecision) -> Iterator[RenderableType]:
    yield Text.assemble(
        ("Last decision ", "italic"), last.time, f"  {last.acted}", (f" by {last.algorithm}", "dim")
    )
    yield Text(f"  {last.message}")
    if last.asked:
        asked = "   ".join(f"{one.term} {one.replicas}" for one in last.asked)
        yield Text.assemble(("  replicas asked for: ", "dim"), asked)
    if last.alternatives:
        yield _alternatives(last)


def _alternatives(last: LastDecision) -> Table:
    table = Table(title="What else it would have cost", title_justify="left", box=None)
    for name in ("replicas", "cap", "devices", "busy", "p99 ms"):
        table.add_column(name, justify="right")
    table.add_column("at the demand expected")
    for one in last.alternatives or ():
        chosen = one.replicas == last.replicas and one.cap == last.cap
        table.add_row(
            f"{one.replicas}", f"{one.cap}", f"{one.accelerators}", f"{one.utilization_percent} %",
            one.predicted_p99_milliseconds or "-", VERDICTS[one.verdict],
            style="bold" if chosen else "",
        )  # fmt: skip
    return table


def _past(past: History) -> Table:
    minutes = (past.span.end - past.span.start) / 60
    title = f"The last {minutes:.0f} min"
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1))
    for name in ("", "", "least", "most", "now"):
        table.add_column(name, justify="left" if not name else "right", no_wrap=True)
    for name, label in SERIES:
        values = past.of(name)
        bounds = extent(values)
        if bounds is None:
            continue
        figures = (f"{one:.4g}" for one in bounds)
        (line,) = chart(values, CHART_WIDTH)
        table.add_row(label, f"[cyan]{line}[/]", *figures)
    if not table.row_count:
        table.add_row("Prometheus knows nothing of this pool in that time", "", "", "", "")
    return table


def _events(subject: PoolContext) -> Iterator[RenderableType]:
    if not subject.notes:
        return
    table = Table(title="Latest Events", title_justify="left", show_header=False, box=None)
    for one in subject.notes[:LATEST_EVENTS]:
        colour = "yellow" if one.type == "Warning" else "default"
        table.add_row(
            f"{one.time:%H:%M:%S}", f"[{colour}]{escape(one.reason)}[/]", escape(one.message)
        )
    yield table
