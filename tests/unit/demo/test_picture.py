"""The picture shows the record: each change once, the objective, and the edits at their seconds."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.demo import picture
from tests.demo.canvas import Panel
from tests.demo.outcome import EditTaken, Run
from tests.demo.themes import DARK, LIGHT, THEMES, Theme
from tests.unit.demo.test_outcome import FINAL, good_run

SVG = "{http://www.w3.org/2000/svg}"


def drawn(run: Run, theme: Theme = LIGHT) -> ET.Element:
    return ET.fromstring(picture.svg(run, theme))  # noqa: S314 - our own text


def texts(run: Run) -> list[str]:
    return [element.text or "" for element in drawn(run).iter(f"{SVG}text")]


def run_with_edits() -> Run:
    run = good_run()
    run.objective_milliseconds = 1500
    run.edits = [
        EditTaken("kubectl patch", 0.4, "", 2, "policy <6>"),
        EditTaken("kubectl patch", 0.4, "", 4, "pool"),
    ]
    return run


def test_objective_edits_and_losses_are_named() -> None:
    run = run_with_edits()
    run.final = replace(FINAL, sent=22953, lost=1, wrong=2)
    said = texts(run)
    assert "objective 1.5 s" in said
    assert "① policy <6>" in said
    assert "② pool" in said
    assert any(line.startswith("22,953 requests, 3 lost") for line in said)


def test_a_mark_is_at_the_second_of_its_edit() -> None:
    root = drawn(run_with_edits())
    vertical = [line for line in root.iter(f"{SVG}line") if line.get("x1") == line.get("x2")]
    dotted = [float(line.get("x1", "0")) for line in vertical if line.get("stroke-dasharray")]
    left, right = 34, 910
    assert dotted == pytest.approx([left + (right - left) * 2 / 4, right])


def test_a_value_that_holds_is_one_step() -> None:
    """replicas: 1 until second 2, 3 until second 4, then 1."""
    (path,) = [
        element.get("d", "")
        for element in drawn(good_run()).iter(f"{SVG}path")
        if element.get("stroke") == LIGHT.replicas and not element.get("stroke-dasharray")
    ]
    assert path.count("V") == 3


def test_an_unknown_latency_is_left_out_and_not_drawn_as_zero() -> None:
    run = good_run()
    run.moments[0] = replace(run.moments[0], p99=None)
    (path,) = [
        element.get("d", "")
        for element in drawn(run).iter(f"{SVG}path")
        if element.get("stroke") == LIGHT.latency
    ]
    assert path.count("L") == len(run.moments) - 2


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_both_pages_get_a_picture_in_their_colors(tmp_path: Path, theme: Theme) -> None:
    files = picture.draw(run_with_edits(), tmp_path / "made")
    text = (tmp_path / "made" / f"demo-{theme.name}.svg").read_text(encoding="utf-8")
    assert [file.name for file in files] == ["demo-light.svg", "demo-dark.svg"]
    assert theme.text in text
    assert (DARK if theme is LIGHT else LIGHT).text not in text


@pytest.mark.parametrize(
    ("highest", "ticks"), [(6.7, [0, 2, 4, 6]), (157, [0, 50, 100, 150]), (24.6, [0, 10, 20]), (2.2, [0, 1, 2])]
)  # fmt: skip
def test_a_panel_has_a_few_round_grid_lines(highest: float, ticks: list[float]) -> None:
    assert Panel(0, 60, highest).ticks() == ticks
