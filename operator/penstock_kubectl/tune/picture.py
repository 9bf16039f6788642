"""The front as a picture in SVG, without a library: goodput to the right, the 99th percentile upwards. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from penstock_tuner.pareto_front import front
from penstock_tuner.record import TriedSettings
from penstock_tuner.settings import TuningObjective

WIDTH, HEIGHT = 720, 420
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 40, 50
TICKS = 5
STYLE = (
    "text{font:12px sans-serif;fill:#444}.axis{stroke:#999}.grid{stroke:#eee}.late{fill:#c9c9c9}"
    ".met{fill:#8fb7d9}.best{fill:#1f6fb4}.front{fill:none;stroke:#1f6fb4;stroke-width:1.5}"
    ".objective{stroke:#c0392b;stroke-dasharray:5 4}"
)


@dataclass(frozen=True, slots=True)
class Axes:
    """Scales of both axes, from 0."""

    goodput: float
    milliseconds: float

    def x(self, goodput: float) -> float:
        """Return the position of a goodput."""
        return LEFT + (WIDTH - LEFT - RIGHT) * goodput / self.goodput

    def y(self, milliseconds: float) -> float:
        """Return the position of a latency; one beyond the axis is at its end."""
        share = min(milliseconds / self.milliseconds, 1.0)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share


def svg(title: str, tried: Sequence[TriedSettings], objective: TuningObjective) -> str:
    """Return the picture: every trial in which a pod served as a point, the front as a line, and the objective."""
    best = front(tried, objective)
    most = max((each.measurement.goodput for each in tried), default=0.0)
    axes = Axes(nice(most or 1.0), nice(1.5 * objective.milliseconds))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        f'<text x="{LEFT}" y="22">{escape(title)}</text>',
        *_grid(axes),
        *_objective(axes, objective),
        *(
            _point(axes, each, "met" if each.meets(objective) else "late")
            for each in tried
            if not each.failure
        ),
        _line(axes, best),
        *(_point(axes, each, "best") for each in best),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def nice(value: float) -> float:
    """Return the least of 1, 2, 2.5, 5 or 10 times a power of ten that is not below `value`, which is positive."""
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value)


def _grid(axes: Axes) -> Iterator[str]:
    for index in range(TICKS + 1):
        goodput, milliseconds = axes.goodput * index / TICKS, axes.milliseconds * index / TICKS
        x, y = axes.x(goodput), axes.y(milliseconds)
        kind = "axis" if index == 0 else "grid"
        yield f'<line class="{kind}" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>'
        yield f'<line class="{kind}" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{goodput:g}</text>'
        yield f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{milliseconds:g}</text>'
    yield f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 10}" text-anchor="middle">goodput, requests on time per second</text>'
    yield f'<text x="16" y="{HEIGHT / 2}" transform="rotate(-90 16 {HEIGHT / 2})" text-anchor="middle">99th percentile, ms</text>'


def _objective(axes: Axes, objective: TuningObjective) -> Iterator[str]:
    y = axes.y(objective.milliseconds)
    yield f'<line class="objective" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>'
    yield f'<text x="{WIDTH - RIGHT}" y="{y - 6:.1f}" text-anchor="end">objective {objective.milliseconds} ms</text>'


def _point(axes: Axes, each: TriedSettings, kind: str) -> str:
    measured = each.measurement
    settings = ", ".join(f"{key} {value}" for key, value in each.settings.as_json().items())
    hover = f"{settings}: {measured.goodput:.1f}/s, p99 {measured.p99_milliseconds:.0f} ms"
    x, y = axes.x(measured.goodput), axes.y(measured.p99_milliseconds)
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="4"><title>{escape(hover)}</title></circle>'


def _line(axes: Axes, best: Sequence[TriedSettings]) -> str:
    points = " ".join(
        f"{axes.x(each.measurement.goodput):.1f},{axes.y(each.measurement.p99_milliseconds):.1f}"
        for each in best
    )
    return f'<polyline class="front" points="{points}"/>'
