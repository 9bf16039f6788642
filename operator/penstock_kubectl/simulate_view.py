"""Views of simulated cases: a table, a plot, and an HTML page with both. Does I/O: writes files."""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.table import Table

from penstock_kubectl.cases import PolicyCase, devices
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.scenario import Comparison, RecordedWorld
from penstock_simulator import plot as picture
from penstock_simulator.outcome import RunSummary
from penstock_simulator.table import FIGURES, cells, grid

PICTURES = (".png", ".svg", ".pdf")
HEADINGS = ("case", "law", "replicas", *FIGURES)


def table(compared: Comparison) -> Table:
    """Return a table with one row per case."""
    world = compared.world
    return grid(title(world), caption(world), HEADINGS, rows(compared), compared.outcomes)


def rows(compared: Comparison) -> list[list[str]]:
    """Return the cells of every case."""
    each = devices(compared.world.subject)
    pairs = zip(compared.cases, compared.outcomes, strict=True)
    return [row(case, result, each) for case, result in pairs]


def title(world: RecordedWorld) -> str:
    """Return the title: pool, rows, length and source of the arrivals."""
    pool, hours = world.subject.pool, float(world.arrivals[-1]) / 3600
    number = len(world.arrivals)
    return f"{pool.namespace}/{pool.name}: {number} rows in {hours:.2f} h, {world.source}"


def caption(world: RecordedWorld) -> str:
    """Return the assumptions of the simulation."""
    service = world.service
    return (
        f"t(b) = {1000 * service.a:.4g} + {1000 * service.c:.4g} b ms, start-up p90 {world.startup_p90:.0f} s,"
        f" {world.start} replicas at the start, seed {world.seed}; one row per request,"
        " 256 client connections, randomly distributed; attainment counts all rows received"
    )


def row(case: PolicyCase, result: RunSummary, devices_each: int) -> list[str]:
    """Return the cells of one case."""
    law, spec = case.effective.law, case.effective
    return [
        case.name,
        spec.algorithm.value,
        f"{law.min_replicas}-{law.max_replicas}" if case.moves else f"{case.count}",
        *cells(result, devices_each),
    ]


def figures(compared: Comparison) -> dict[str, Any]:
    """Return all figures as JSON; GPU-hours count devices."""
    world, each = compared.world, devices(compared.world.subject)
    return {
        "pool": f"{world.subject.pool.namespace}/{world.subject.pool.name}",
        "arrivals": world.source,
        "rows": len(world.arrivals),
        "assumptions": caption(world),
        "cases": [
            {**result.as_json(), "case": result.law, "gpu_hours": result.gpu_hours * each}
            for result in compared.outcomes
        ],
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
    heading, notes = escape(title(compared.world)), escape(caption(compared.world))
    lines = _line("th", HEADINGS) + "".join(_line("td", row_cells) for row_cells in rows(compared))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{heading}</title>'
        f"<style>{STYLE}</style><h1>{heading}</h1><table>{lines}</table><p>{notes}</p>{svg}</html>\n"
    )


def _line(tag: str, texts: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(text)}</{tag}>" for text in texts) + "</tr>"


STYLE = (
    "body{font:14px sans-serif;margin:2em;max-width:70em}h1{font-size:1.2em}svg{max-width:100%;height:auto}"
    "td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ccc}td:first-child{text-align:left}"
)
