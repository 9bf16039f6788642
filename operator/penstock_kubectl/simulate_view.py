"""Views of simulated cases: a table, a plot, and an HTML page with both. Does I/O: writes files."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.table import Table

from penstock_kubectl.cases import CaseLabels, devices
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.savings import ReplicaPrice
from penstock_kubectl.scenario import Comparison, RecordedWorld
from penstock_operator.decide.cost.prices import money
from penstock_simulator import plot as picture
from penstock_simulator.outcome import RunSummary
from penstock_simulator.pods.step_time import Generation
from penstock_simulator.scenario import Routing
from penstock_simulator.table import FIGURES, batch_line, cells, generation_line, grid, held_line

PICTURES = (".png", ".svg", ".pdf")
ROUTED: Final[Mapping[Routing, str]] = {
    Routing.CONNECTION: "256 client connections, randomly distributed",
    Routing.LEAST_REQUEST: "each request to the pod with the fewest, as by the gateway",
}
HEADINGS = ("case", "law", "replicas", *FIGURES)


def table(compared: Comparison) -> Table:
    """Return a table with one row per case."""
    heads = headings(compared.price)
    return grid(title(compared.world), caption(compared), heads, rows(compared), compared.outcomes)


def headings(price: ReplicaPrice | None) -> tuple[str, ...]:
    """Return the headings of the columns; those of the cost only where there is a price."""
    if price is None:
        return HEADINGS
    unit = price.currency or "cost"
    return (*HEADINGS, unit, f"{unit}/1,000")


def rows(compared: Comparison) -> list[list[str]]:
    """Return the cells of every case."""
    each = devices(compared.world.subject)
    pairs = zip(compared.cases, compared.outcomes, strict=True)
    return [[*row(case, result, each), *_costs(compared, result)] for case, result in pairs]


def _costs(compared: Comparison, result: RunSummary) -> list[str]:
    """Return the cells of a run's cost."""
    if compared.price is None:
        return []
    each = compared.price.per_thousand(result, len(compared.world.arrivals))
    return [money(compared.price.of(result)), money(each)]


def savings(compared: Comparison) -> list[str]:
    """Return what the law saved against each baseline, a sentence each."""
    each = devices(compared.world.subject)

    def amount(result: RunSummary) -> str:
        if compared.price is None:
            return f"{result.gpu_hours * each:.2f} device hours"
        return f"{money(compared.price.of(result))} {compared.price.currency}".strip()

    return [saving.sentence(amount) for saving in compared.savings]


def notes(compared: Comparison) -> list[str]:
    """Return the latency of generated text, what came at zero replicas, what became of batch work, with its share of the cost, and what the law saved."""
    each = devices(compared.world.subject)
    met_start = [line for result in compared.outcomes if (line := held_line(result)) is not None]
    work = [
        f"{line}{_batch_cost(compared, result)}"
        for result in compared.outcomes
        if (line := batch_line(result, each)) is not None
    ]
    text = [line for result in compared.outcomes if (line := generation_line(result)) is not None]
    return text + met_start + work + savings(compared)


def _batch_cost(compared: Comparison, result: RunSummary) -> str:
    if compared.price is None or result.batch_work is None:
        return ""
    cost = money(compared.price.of(result) * Decimal(str(result.batch_work.share)))
    return f", {cost} {compared.price.currency}".rstrip()


def title(world: RecordedWorld) -> str:
    """Return the title: pool, rows, length and source of the arrivals."""
    pool, hours = world.subject.pool, float(world.arrivals[-1]) / 3600
    number = len(world.arrivals)
    return f"{pool.namespace}/{pool.name}: {number} rows in {hours:.2f} h, {world.source}"


def caption(compared: Comparison) -> str:
    """Return the assumptions of the simulation."""
    world, service = compared.world, compared.world.service
    price = "" if compared.price is None else f"; {compared.price}"
    step, each = (
        f"t(b) = {1000 * service.a:.4g} + {1000 * service.c:.4g} b ms",
        "one row per request",
    )
    if world.generation is not None:
        step, each = _generated(world.generation)
    return (
        f"{step}, start-up p90 {world.startup_p90:.0f} s,"
        f" {world.start} replicas at the start, seed {world.seed}; {each},"
        f" {ROUTED[compared.runs[0].scenario.routing]}; attainment counts all rows received{price}"
    )


def _generated(generation: Generation) -> tuple[str, str]:
    """Return the time of a step, and the mean tokens of the requests."""
    a, p, d, k = (1000 * getattr(generation.steps, name) for name in "apdk")
    number = max(len(generation.lengths), 1)
    prompt, answer = (sum(each) / number for each in zip(*generation.lengths.values(), strict=True))
    step = (
        f"a step takes {a:.4g} ms, {p:.4g} for 256 prompt tokens, {d:.3g} a row and {k:.3g} for 4096 tokens read;"
        f" the cache holds {generation.steps.cache_tokens} tokens"
    )
    return step, f"{prompt:.0f} prompt and {answer:.0f} output tokens per request"


def row(case: CaseLabels, result: RunSummary, devices_each: int) -> list[str]:
    """Return the cells of one case, without its cost."""
    return [*case, *cells(result, devices_each)]


def figures(compared: Comparison) -> dict[str, Any]:
    """Return all figures as JSON; GPU-hours count devices."""
    world, each = compared.world, devices(compared.world.subject)
    return {
        "pool": f"{world.subject.pool.namespace}/{world.subject.pool.name}",
        "arrivals": world.source,
        "rows": len(world.arrivals),
        "assumptions": caption(compared),
        "cases": [
            {
                **result.as_json(),
                "case": result.law,
                "gpu_hours": result.gpu_hours * each,
                **_cost_figures(compared, result),
            }
            for result in compared.outcomes
        ],
        "savings": [
            {"against": saving.other.law, "share": saving.share} for saving in compared.savings
        ],
    }


def _cost_figures(compared: Comparison, result: RunSummary) -> dict[str, Any]:
    price = compared.price
    if price is None:
        return {}
    each = price.per_thousand(result, len(compared.world.arrivals))
    return {
        "currency": price.currency,
        "cost": float(price.of(result)),
        "cost_per_thousand_rows": float(each),
    }


def plot(path: Path, compared: Comparison) -> None:
    """Write demand, replicas, cap and latency over time: an image, or an HTML page that includes the table.

    Raises:
        NotEnoughData: the file suffix is not supported.
        OSError: the file cannot be written.
    """
    if path.suffix in PICTURES:
        picture.plot(compared.runs, path)
    elif path.suffix in (".html", ".htm"):
        with TemporaryDirectory() as folder:
            drawn = Path(folder) / "plot.svg"
            picture.plot(compared.runs, drawn)
            svg = drawn.read_text(encoding="utf-8")
        path.write_text(_page(compared, svg[svg.index("<svg") :]), encoding="utf-8")
    else:
        raise NotEnoughData(
            f"--plot {path}: expected a name that ends in .png, .svg, .pdf or .html"
        )


def _page(compared: Comparison, svg: str) -> str:
    heading, text = escape(title(compared.world)), escape(caption(compared))
    lines = _line("th", headings(compared.price)) + "".join(
        _line("td", row_cells) for row_cells in rows(compared)
    )
    text += "".join(f"<br>{escape(line)}" for line in notes(compared))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style><h1>{heading}</h1><table>{lines}</table><p>{text}</p>{svg}</html>\n"
    )


def _line(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"


STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}h1{font-size:1.2em}svg{max-width:100%;height:auto}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}td:first-child{text-align:left}"
)
