"""The demo's picture as SVG, on light and on dark pages: load, batch cap, replicas and latency, with edits and objective."""

from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path

from tests.demo.canvas import Canvas, Panel, Point
from tests.demo.moment import Moment
from tests.demo.outcome import Run
from tests.demo.themes import THEMES, Theme

TOP, GAP, FOOT = 34, 34, 26
HEIGHTS = {"load": 62, "cap": 62, "replicas": 62, "latency": 92}
CIRCLED = "①②③④⑤⑥⑦⑧⑨"
HEADROOM = 1.12
"""Top of a panel over its largest value."""
MILLISECONDS = 1000.0


def draw(run: Run, folder: Path) -> list[Path]:
    """Write `demo-light.svg` and `demo-dark.svg`; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for theme in THEMES:
        file = folder / f"demo-{theme.name}.svg"
        file.write_text(svg(run, theme), encoding="utf-8")
        files.append(file)
    return files


def svg(run: Run, theme: Theme) -> str:
    """Return the picture of a run that has at least one second."""
    moments = run.moments
    canvas = Canvas(theme, (moments[0].second, moments[-1].second))
    objective = run.objective_milliseconds / MILLISECONDS
    peaks = {
        "load": max(moment.rate for moment in moments),
        "cap": max(moment.cap or 1 for moment in moments),
        "replicas": max(max(moment.ready, moment.wanted) for moment in moments),
        "latency": max(objective, *(point[1] for point in _latency(moments)), 0.1),
    }
    panels, top = {}, float(TOP)
    for name, height in HEIGHTS.items():
        panels[name] = Panel(top, height, peaks[name] * HEADROOM)
        top += height + GAP
    _load(canvas, panels["load"], moments)
    _cap(canvas, panels["cap"], moments)
    _replicas(canvas, panels["replicas"], moments)
    _latency_panel(canvas, panels["latency"], moments, objective)
    bottom = panels["latency"].bottom
    _edits(canvas, run, bottom)
    canvas.time_axis(bottom)
    return canvas.document(round(bottom + FOOT + 18), _footer(run))


def _load(canvas: Canvas, panel: Panel, moments: Sequence[Moment]) -> None:
    color = canvas.theme.load
    canvas.frame(panel, color, "requests per second")
    canvas.steps(panel, _changes(moments, lambda moment: moment.rate), color, fill=True)


def _cap(canvas: Canvas, panel: Panel, moments: Sequence[Moment]) -> None:
    color = canvas.theme.cap
    canvas.frame(panel, color, "batch cap", "set in running pods, without a restart")
    canvas.steps(panel, _changes(moments, lambda moment: moment.cap), color, fill=True)


def _replicas(canvas: Canvas, panel: Panel, moments: Sequence[Moment]) -> None:
    color = canvas.theme.replicas
    canvas.frame(panel, color, "replicas", "line: Ready; dots: requested")
    canvas.steps(panel, _changes(moments, lambda moment: moment.ready), color, fill=True)
    wanted = _changes(moments, lambda moment: moment.wanted)
    canvas.steps(panel, wanted, color, fill=False, dashes="1.5 3")


def _latency_panel(
    canvas: Canvas, panel: Panel, moments: Sequence[Moment], objective: float
) -> None:
    canvas.frame(panel, canvas.theme.latency, "latency, 99th percentile, seconds")
    canvas.line(panel, _latency(moments), canvas.theme.latency)
    canvas.limit(panel, objective, canvas.theme.objective, f"objective {objective:g} s")


def _edits(canvas: Canvas, run: Run, bottom: float) -> None:
    for sign, edit in zip(CIRCLED, run.edits, strict=False):
        canvas.mark(edit.second, TOP - 20, bottom, f"{sign} {edit.label}")


def _latency(moments: Sequence[Moment]) -> list[Point]:
    """Return (second, seconds of latency) where it is known."""
    return [
        (moment.second, moment.p99 / MILLISECONDS) for moment in moments if moment.p99 is not None
    ]


def _changes(moments: Sequence[Moment], value: Callable[[Moment], float | None]) -> list[Point]:
    """Return (second, value) at each change and at the end; unknown values are skipped."""
    known = [
        (moment.second, float(now)) for moment in moments if (now := value(moment)) is not None
    ]
    firsts = [next(group) for _, group in groupby(known, key=lambda point: point[1])]
    return [*firsts, *known[-1:]]


def _footer(run: Run) -> str:
    """Return the line below the picture: what ran, and what was lost."""
    final = run.final
    counts = f"{final.sent:,} requests, {final.lost + final.wrong} lost" if final else ""
    return f"{counts} · one run of make demo on an emulated accelerator"
