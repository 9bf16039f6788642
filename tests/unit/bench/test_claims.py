"""The bench of claims shows each claim with what was reached of it, missed ones too."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.bench.claims import picture
from tests.bench.claims.claims import (
    ALONE,
    BATCHED,
    COMPILED,
    CONTINUOUS,
    COST,
    RATE,
    STATIC,
    THROUGHPUT,
    TUNED,
    USE,
    ClaimLine,
    PoolCost,
    Sample,
    Setting,
    judged,
)
from tests.demo.themes import THEMES

SVG = "{http://www.w3.org/2000/svg}"


def setting(name: str, *rates: float, use: float = 0.8, subject: str = "encoder") -> Setting:
    samples = tuple(Sample(int(rate), 1.0, rate, 8.0, 4.0, use) for rate in rates)
    return Setting(subject, name, "", samples)


def line(claim: object, lines: list[ClaimLine]) -> ClaimLine:
    (only,) = [each for each in lines if each.claim is claim]
    return only


def cost(law_hours: float, attainment: float = 0.995) -> PoolCost:
    return PoolCost("waves", law_hours, attainment, 0.75, 12, 10.0, 0.991, 0.6)


@pytest.mark.parametrize(("batched", "met"), [(210.0, True), (190.0, False)])
def test_throughput_is_the_ratio_to_one_at_a_time(batched: float, met: bool) -> None:
    lines = judged([setting(ALONE, 100.0), setting(BATCHED, batched)], [])
    assert line(THROUGHPUT, lines).measured == pytest.approx(batched / 100)
    assert line(THROUGHPUT, lines).met is met


def test_a_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    """A machine that is half as fast in one round changes both settings, and not their ratio."""
    lines = judged([setting(ALONE, 100, 50, 100), setting(BATCHED, 300, 150, 310)], [])
    measured = line(THROUGHPUT, lines)
    assert (measured.measured, measured.low, measured.high) == pytest.approx((3.0, 3.0, 3.1))


@pytest.mark.parametrize(("use", "met"), [(0.69, False), (0.7, True), (0.97, True)])
def test_use_is_reached_from_its_lower_end_on(use: float, met: bool) -> None:
    assert line(USE, judged([setting(BATCHED, 100.0, use=use)], [])).met is met


def test_compilation_and_tuning_are_compared_with_batching_alone() -> None:
    settings = [setting(BATCHED, 100.0), setting(COMPILED, 120.0), setting(TUNED, 160.0)]
    reached = {each.line: each.met for each in judged(settings, []) if each.claim is RATE}
    assert reached == {
        "encoder: compilation / dynamic batching": False,
        "encoder: with tuning / dynamic batching": True,
    }


def test_continuous_batching_is_also_compared_with_static_batches() -> None:
    settings = [setting(ALONE, 100.0), setting(STATIC, 250.0), setting(CONTINUOUS, 400.0)]
    ratios = [each.measured for each in judged(settings, []) if each.claim is THROUGHPUT]
    assert ratios == pytest.approx([4.0, 1.6])


@pytest.mark.parametrize(("hours", "met"), [(6.4, True), (6.6, False), (11.0, False)])
def test_cost_is_the_ratio_to_the_fixed_count(hours: float, met: bool) -> None:
    assert line(COST, judged([], [cost(hours)])).met is met


def test_a_law_that_misses_the_objective_saves_nothing() -> None:
    """Cheaper and late is no saving: the line is missed, whatever its GPU-hours, and its use is not judged."""
    (saving,) = judged([], [cost(1.0, 0.98)])
    assert saving.claim is COST
    assert not saving.met
    assert picture.figure(saving) == "late ✗"


def test_neither_cost_nor_use_is_judged_where_nothing_attains_the_objective() -> None:
    late = replace(cost(1.0, 0.5), fixed_attainment=0.49)
    assert judged([], [late]) == []


def test_the_picture_names_each_claim_once_and_marks_what_is_missed(tmp_path: Path) -> None:
    lines = judged([setting(ALONE, 100.0), setting(BATCHED, 190.0)], [cost(6.0)])
    files = picture.draw(lines, "a footer", tmp_path)
    assert [file.name for file in files] == [f"claims-{theme.name}.svg" for theme in THEMES]
    root = ET.fromstring(files[0].read_text())  # noqa: S314 - our own text
    said = [element.text or "" for element in root.iter(f"{SVG}text")]
    assert said.count("claim: 2 to 10 times the throughput") == 1
    assert "x 1.90 ✗" in said
    assert "x 0.60 ✓" in said
    assert "75 % ✓" in said
    assert "a footer" in said


def test_a_bar_ends_at_the_claim_where_it_is_just_reached() -> None:
    lines = judged([setting(ALONE, 100.0), setting(BATCHED, 200.0, use=0.0)], [])
    root = ET.fromstring(picture.svg(lines, "", THEMES[0]))  # noqa: S314 - our own text
    widths = [float(bar.get("width", "0")) for bar in root.iter(f"{SVG}rect")]
    assert widths == pytest.approx([picture.SPAN / 2, 0.0])
