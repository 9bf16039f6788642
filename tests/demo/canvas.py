"""Lines, steps and labels of an SVG picture whose panels share the axis of seconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, log10

from tests.demo.themes import Theme

WIDTH, LEFT, RIGHT = 920, 34, 10
FONT = "ui-sans-serif,-apple-system,'Segoe UI','Noto Sans',Helvetica,Arial,sans-serif"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Panel:
    """A strip of the picture; values go from zero at its bottom to `highest` at its top."""

    top: float
    height: float
    highest: float

    @property
    def bottom(self) -> float:
        """Return the y of zero."""
        return self.top + self.height

    def y(self, value: float) -> float:
        """Return the y of a value."""
        return round(self.bottom - self.height * value / self.highest, 1)

    def ticks(self) -> list[float]:
        """Return two to four round values for grid lines, zero first."""
        power: float = 10 ** (ceil(log10(self.highest)) - 1)
        step = next(
            step for step in (power / 2, power, 2 * power, 5 * power) if self.highest / step < 4
        )
        return [index * step for index in range(int(self.highest / step) + 1)]


@dataclass(slots=True)
class Canvas:
    """Collects the elements of one picture."""

    theme: Theme
    span: tuple[int, int]
    """First and last second."""
    _elements: list[str] = field(default_factory=list)

    def x(self, second: float) -> float:
        """Return the x of a second."""
        first, last = self.span
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (second - first) / max(1, last - first), 1)

    def frame(self, panel: Panel, color: str, title: str, note: str = "") -> None:
        """Draw a panel's title, a note at the right, and its grid."""
        self.text(LEFT, panel.top - 6, title, color, weight=600)
        if note:
            self.text(WIDTH - RIGHT, panel.top - 6, note, self.theme.muted, anchor="end")
        for value in panel.ticks():
            y = panel.y(value)
            self.rule((LEFT, y), (WIDTH - RIGHT, y), self.theme.grid, 1)
            self.text(LEFT - 6, y + 4, f"{value:g}", self.theme.muted, anchor="end", size=11)

    def steps(
        self, panel: Panel, points: Sequence[Point], color: str, *, fill: bool, dashes: str = ""
    ) -> None:
        """Draw values that hold until the next point."""
        if not points:
            return
        (second, value), *rest = points
        path = f"M{self.x(second)} {panel.y(value)}"
        path += "".join(f"H{self.x(second)}V{panel.y(value)}" for second, value in rest)
        if fill:
            area = f"{path}V{panel.bottom}H{self.x(second)}Z"
            self._elements.append(f'<path d="{area}" fill="{color}" fill-opacity=".16"/>')
        self._stroke(path, color, dashes)

    def line(self, panel: Panel, points: Sequence[Point], color: str) -> None:
        """Draw a line through points."""
        if points:
            places = (f"{self.x(second)} {panel.y(value)}" for second, value in points)
            self._stroke(f"M{'L'.join(places)}", color, "")

    def limit(self, panel: Panel, value: float, color: str, label: str) -> None:
        """Draw a dashed line across a panel, named at its right end."""
        y = panel.y(value)
        self.rule((LEFT, y), (WIDTH - RIGHT, y), color, 1.8, "7 4")
        self.text(WIDTH - RIGHT, y - 5, label, color, anchor="end", weight=600)

    def mark(self, second: float, top: float, bottom: float, label: str) -> None:
        """Draw a vertical line through all panels, named at its top."""
        x = self.x(second)
        self.rule((x, top + 4), (x, bottom), self.theme.text, 1.2, "2 3")
        self.text(x - 5, top, label, self.theme.text, weight=600)

    def time_axis(self, bottom: float) -> None:
        """Write the minutes below the panels."""
        first, last = self.span
        for second in range(60 * ceil(first / 60), last + 1, 60):
            x = self.x(second)
            self.rule((x, bottom), (x, bottom + 4), self.theme.muted, 1)
            self.text(
                x, bottom + 17, f"{second // 60} min", self.theme.muted, anchor="middle", size=11
            )

    def document(self, height: int, footer: str) -> str:
        """Return the whole picture with a line of text at its foot."""
        self.text(WIDTH - RIGHT, height - 4, footer, self.theme.muted, anchor="end", size=11)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}"'
            f' height="{height}" font-family="{escape(FONT)}" font-size="13" role="img">'
        )
        return "\n".join([head, *self._elements, "</svg>", ""])

    def _stroke(self, path: str, color: str, dashes: str) -> None:
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._elements.append(
            f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2" stroke-linejoin="round"{dashed}/>'
        )

    def rectangle(
        self, corner: Point, width: float, height: float, color: str, opacity: float = 1.0
    ) -> None:
        """Fill a rectangle from its upper left corner."""
        x, y = corner
        self._elements.append(
            f'<rect x="{round(x, 1)}" y="{round(y, 1)}" width="{round(width, 1)}" height="{height}"'
            f' fill="{color}" fill-opacity="{opacity:g}"/>'
        )

    def rule(self, start: Point, end: Point, color: str, width: float, dashes: str = "") -> None:
        """Draw a straight line."""
        (x, y), (to_x, to_y) = start, end
        dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
        self._elements.append(
            f'<line x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}" stroke="{color}" stroke-width="{width}"{dashed}/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        color: str,
        *,
        anchor: str = "start",
        size: int = 13,
        weight: int = 400,
    ) -> None:
        """Write text, whose baseline is at `y`."""
        self._elements.append(
            f'<text x="{x}" y="{round(y, 1)}" fill="{color}" text-anchor="{anchor}" font-size="{size}"'
            f' font-weight="{weight}">{escape(text)}</text>'
        )
