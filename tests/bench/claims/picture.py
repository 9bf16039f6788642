"""The claims as SVG, on light and on dark pages: a bar for each line, as a share of the claimed effect."""

from collections.abc import Sequence
from math import isinf
from pathlib import Path
from typing import Final

from tests.bench.claims.claims import USE, ClaimLine
from tests.demo.canvas import RIGHT, WIDTH, Canvas
from tests.demo.themes import THEMES, Theme

NAMES, FIGURES = 370, 70
"""Widths of the columns of names and of figures."""
TOP, ROW, BAR, GAP, FOOT = 20, 22, 12, 30, 30
FULL: Final = 2.0
"""Share of a claim at the right end of the axis; longer bars are cut."""
SPAN: Final = WIDTH - NAMES - FIGURES - RIGHT


def draw(lines: Sequence[ClaimLine], footer: str, folder: Path) -> list[Path]:
    """Write `claims-light.svg` and `claims-dark.svg`; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for theme in THEMES:
        file = folder / f"claims-{theme.name}.svg"
        file.write_text(svg(lines, footer, theme), encoding="utf-8")
        files.append(file)
    return files


def svg(lines: Sequence[ClaimLine], footer: str, theme: Theme) -> str:
    """Return the picture."""
    canvas = Canvas(theme, (0, 1))
    top = float(TOP)
    for claim in dict.fromkeys(line.claim for line in lines):
        canvas.text(0, top, f"claim: {claim.text}", theme.text, weight=600)
        canvas.text(NAMES + SPAN / FULL, top, "claim", theme.muted, anchor="middle", size=11)
        rows = [line for line in lines if line.claim is claim]
        bottom = top + 8 + ROW * len(rows)
        for index, line in enumerate(rows):
            _row(canvas, line, top + 8 + ROW * index)
        at = NAMES + SPAN / FULL
        canvas.rule((at, top + 4), (at, bottom), theme.objective, 1.8, "7 4")
        canvas.rule((NAMES, top + 4), (NAMES, bottom), theme.muted, 1)
        top = bottom + GAP
    return canvas.document(round(top - GAP + FOOT), footer)


def _row(canvas: Canvas, line: ClaimLine, top: float) -> None:
    theme = canvas.theme
    color = theme.replicas if line.met else theme.objective
    share = min(max(line.share, 0.0), FULL)
    canvas.text(10, top + BAR, line.line, theme.text, size=12)
    canvas.rectangle((NAMES, top + 2), SPAN * share / FULL, BAR, color, 0.75)
    canvas.text(WIDTH - RIGHT, top + BAR, figure(line), color, anchor="end", size=12, weight=600)


def figure(line: ClaimLine) -> str:
    """Return the measured figure and whether it reaches the claim; `late` where a law misses the objective."""
    text = f"{100 * line.measured:.0f} %" if line.claim is USE else f"x {line.measured:.2f}"
    return f"{'late' if isinf(line.measured) else text} {'✓' if line.met else '✗'}"
