"""The same load by connection and by request, as SVG on light and on dark pages: `python -m tests.bench.gateway.picture`.

Simulated: the default law, with the service curve, the scale and the starts of `make bench-control`.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Final

import numpy as np

from penstock_simulator.law_registry import law_named
from penstock_simulator.outcome import RunSummary, completed, outcome
from penstock_simulator.scenario import Routing, Scenario
from penstock_simulator.simulation import simulate
from tests.bench.control.jobs import arrivals_of
from tests.bench.control.plan import DEFAULT, SERVICE, SETTINGS, TRACES
from tests.demo.canvas import Canvas, Panel, Point
from tests.demo.themes import THEMES, Theme

OUT: Final = Path("build/bench")
WAYS: Final = {"by connection": Routing.CONNECTION, "by request": Routing.LEAST_REQUEST}
BIN_SECONDS: Final = 30
TOP, GAP, FOOT, HEADROOM = 26, 34, 44, 1.12
HEIGHTS: Final = (50, 110, 110)
MINUTES: Final = 10


@dataclass(frozen=True, slots=True)
class RoutedRun:
    """A run in figures; points are (second, value)."""

    summary: RunSummary
    rates: list[Point]
    devices: list[Point]
    p99: list[Point]


def main() -> None:
    """Simulate both ways, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=Path, default=Path("build/traces"), help="their folder")
    parser.add_argument("--trace", choices=TRACES, default="azure_conv")
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the pictures")
    args = parser.parse_args()
    file = args.traces / TRACES[args.trace]
    runs = {name: routed(file, routing) for name, routing in WAYS.items()}
    for name, run in runs.items():
        print(name, run.summary)
    args.out.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        picture = args.out / f"routing-{theme.name}.svg"
        picture.write_text(svg(runs, args.trace, theme), encoding="utf-8")
        print(picture)


def routed(trace: Path, routing: Routing) -> RoutedRun:
    """Simulate the default law on a trace of which the first seed is taken."""
    world = Scenario(SERVICE, SETTINGS, routing=routing, seed=1)
    run = simulate(world, law_named(DEFAULT, SERVICE), arrivals_of(trace, None, 1))
    arrived, latency = completed(run)
    edges = np.arange(0, arrived.max() + BIN_SECONDS, BIN_SECONDS)
    places = np.digitize(arrived, edges) - 1
    tails = [
        (float(edges[at]), float(np.quantile(latency[places == at], 0.99)))
        for at in np.unique(places)
    ]
    return RoutedRun(
        outcome(run),
        [
            (float(edge), count / BIN_SECONDS)
            for edge, count in zip(edges, np.histogram(run.arrivals, edges)[0], strict=False)
        ],
        [(tick.time, float(tick.devices)) for tick in run.moments],
        tails,
    )


def svg(runs: Mapping[str, RoutedRun], trace: str, theme: Theme) -> str:
    """Return the picture; the panels share the axis of time."""
    colors = dict(zip(WAYS, (theme.latency, theme.replicas), strict=True))
    first = next(iter(runs.values()))
    end = ceil(max(second for run in runs.values() for second, _ in run.devices))
    canvas = Canvas(theme, (0, end))
    rates, devices, latency = _panels(runs)
    canvas.frame(rates, theme.load, "requests per second")
    canvas.steps(rates, first.rates, theme.load, fill=True)
    canvas.frame(devices, theme.text, "GPUs", _note(runs, "gpu_hours", "GPU-hours"))
    canvas.frame(latency, theme.text, "p99 of latency, seconds", _note(runs, "p99_seconds", "s"))
    for name, run in runs.items():
        canvas.steps(devices, run.devices, colors[name], fill=False)
        canvas.line(latency, run.p99, colors[name])
    objective = Scenario(SERVICE, SETTINGS).objective_seconds
    canvas.limit(latency, objective, theme.objective, "objective")
    for place, (name, color) in enumerate(colors.items()):
        canvas.text(100 + 120 * place, devices.top - 6, name, color, weight=600)
    _minutes(canvas, end, latency.bottom)
    footer = f"simulated: {DEFAULT}, {trace}, 100 + 10 b ms, starts of 60 s"
    return canvas.document(round(latency.bottom + FOOT), footer)


def _panels(runs: Mapping[str, RoutedRun]) -> tuple[Panel, Panel, Panel]:
    top, panels = float(TOP), []
    for height, name in zip(HEIGHTS, ("rates", "devices", "p99"), strict=True):
        highest = max(value for run in runs.values() for _, value in getattr(run, name))
        panels.append(Panel(top, height, HEADROOM * highest))
        top += height + GAP
    return panels[0], panels[1], panels[2]


def _note(runs: Mapping[str, RoutedRun], figure: str, unit: str) -> str:
    values = (f"{name} {getattr(run.summary, figure):.3g}" for name, run in runs.items())
    return f"{', '.join(values)} {unit}"


def _minutes(canvas: Canvas, end: int, bottom: float) -> None:
    for minute in range(0, end // 60 + 1, MINUTES):
        x = canvas.x(60 * minute)
        canvas.rule((x, bottom), (x, bottom + 4), canvas.theme.muted, 1)
        canvas.text(x, bottom + 17, f"{minute} min", canvas.theme.muted, anchor="middle", size=11)


if __name__ == "__main__":
    main()
