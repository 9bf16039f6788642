"""Views of simulated cases: a table, a plot, and an HTML page with both. Does I/O: writes files."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from rich.table import Table

from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.simulate.savings import savings
from penstock_kubectl.simulate.scenario import AlikePods, Comparison, RecordedWorld, Result
from penstock_operator.decide.cost.prices import money
from penstock_simulator import plot as picture
from penstock_simulator.options import PICTURES
from penstock_simulator.pods.step_time import Generation
from penstock_simulator.scenario import Routing
from penstock_simulator.table import FIGURES, batch_line, cells, generation_line, grid, held_line

PAGES = (".html", ".htm")
ROUTED: Final[Mapping[Routing, str]] = {
    Routing.CONNECTION: "256 client connections, randomly distributed",
    Routing.LEAST_REQUEST: "each request to the pod with the fewest, as by the gateway",
}
HEADINGS = ("case", "law", "replicas", *FIGURES)


def table(compared: Comparison) -> Table:
    """Return a table with one row per case."""
    heads, outcomes = headings(compared), [each.outcome for each in compared.results]
    return grid(title(compared.world), caption(compared), heads, rows(compared), outcomes)


def headings(compared: Comparison) -> tuple[str, ...]:
    """Return the headings of the columns; those of the cost only where there is a price."""
    if compared.pods.currency is None:
        return HEADINGS
    unit = compared.pods.currency or "cost"
    return (*HEADINGS, unit, f"{unit}/1,000")


def rows(compared: Comparison) -> list[list[str]]:
    """Return the cells of every case."""
    number = len(compared.world.arrivals)
    return [
        [*each.labels, *cells(each.outcome, each.devices), *_costs(each, number)]
        for each in compared.results
    ]


def _costs(result: Result, number: int) -> list[str]:
    """Return the cells of a run's cost; `number` is that of the rows received."""
    amounts = (result.cost, result.per_thousand(number))
    return [money(amount) for amount in amounts if amount is not None]


def notes(compared: Comparison) -> list[str]:
    """Return the hours of each variant, the latency of generated text, what came at zero replicas, what became of batch work, with its share of the cost, and what the law saved."""
    results = compared.results
    hours = [_hours_line(each) for each in results if each.replica_hours]
    text = [generation_line(each.outcome) for each in results]
    met_start = [held_line(each.outcome) for each in results]
    work = [
        None if line is None else f"{line}{_batch_cost(compared, each)}"
        for each in results
        for line in (batch_line(each.outcome, each.devices),)
    ]
    known = [line for line in (*hours, *text, *met_start, *work) if line is not None]
    return [*known, *(saving.sentence() for saving in savings(compared))]


def _hours_line(result: Result) -> str:
    hours = ", ".join(f"{hours:.3f} of {name}" for name, hours in result.replica_hours.items())
    return f"{result.labels.name}: replica hours {hours}"


def _batch_cost(compared: Comparison, result: Result) -> str:
    if result.batch_cost is None:
        return ""
    return f", {money(result.batch_cost)} {compared.pods.currency}".rstrip()


def title(world: RecordedWorld) -> str:
    """Return the title: pool, rows, length and source of the arrivals."""
    pool, hours = world.subject.pool, world.length / 3600
    number = len(world.arrivals)
    return f"{pool.namespace}/{pool.name}: {number} rows in {hours:.2f} h, {world.source}"


def caption(compared: Comparison) -> str:
    """Return the assumptions of the simulation."""
    world, pods, each, price = compared.world, compared.pods, "one row per request", ""
    if isinstance(pods, AlikePods):
        each = each if pods.generation is None else _tokens(pods.generation)
        price = "" if pods.price is None else f"; {pods.price}"
    return (
        f"{pods}, seed {world.seed}; {each},"
        f" {ROUTED[compared.results[0].run.scenario.routing]}; attainment counts all rows received{price}"
    )


def _tokens(generation: Generation) -> str:
    """Return the mean tokens of the requests."""
    number = max(len(generation.lengths), 1)
    prompt, answer = (sum(each) / number for each in zip(*generation.lengths.values(), strict=True))
    return f"{prompt:.0f} prompt and {answer:.0f} output tokens per request"


def figures(compared: Comparison) -> dict[str, Any]:
    """Return all figures as JSON; GPU-hours count devices."""
    world = compared.world
    return {
        "pool": f"{world.subject.pool.namespace}/{world.subject.pool.name}",
        "arrivals": world.source,
        "rows": len(world.arrivals),
        "assumptions": caption(compared),
        "cases": [
            {
                **_summary(each),
                "case": each.labels.name,
                "gpu_hours": each.device_hours,
                **({"replica_hours": dict(each.replica_hours)} if each.replica_hours else {}),
                **_cost_figures(compared, each),
            }
            for each in compared.results
        ],
        "savings": [
            {"against": saving.other.labels.name, "share": saving.share}
            for saving in savings(compared)
        ],
    }


def _summary(result: Result) -> dict[str, Any]:
    figures = result.outcome.as_json()
    if figures["batch_work"]:
        figures["batch_work"]["gpu_hours"] *= result.devices
    return figures


def _cost_figures(compared: Comparison, result: Result) -> dict[str, Any]:
    each = result.per_thousand(len(compared.world.arrivals))
    if result.cost is None or each is None:
        return {}
    return {
        "currency": compared.pods.currency,
        "cost": float(result.cost),
        "cost_per_thousand_rows": float(each),
    }


def check_plot(path: Path) -> None:
    """Check that `plot` can write this file.

    Raises:
        NotEnoughData: the file suffix is not supported.
    """
    if path.suffix not in (*PICTURES, *PAGES):
        raise NotEnoughData(
            f"--plot {path}: expected a name that ends in .png, .svg, .pdf or .html"
        )


def plot(path: Path, compared: Comparison) -> None:
    """Write demand, replicas, cap and latency over time: an image, or an HTML page that includes the table.

    Raises:
        OSError: the file cannot be written.
    """
    runs = [each.run for each in compared.results]
    if path.suffix in PICTURES:
        picture.plot(runs, path)
    else:
        with TemporaryDirectory() as folder:
            drawn = Path(folder) / "plot.svg"
            picture.plot(runs, drawn)
            svg = drawn.read_text(encoding="utf-8")
        path.write_text(_page(compared, svg[svg.index("<svg") :]), encoding="utf-8")


def _page(compared: Comparison, svg: str) -> str:
    heading, text = escape(title(compared.world)), escape(caption(compared))
    lines = _line("th", headings(compared)) + "".join(
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
