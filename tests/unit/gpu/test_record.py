"""A part's record: figures are judged by their targets, checks always, and a part that raises goes on and reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.record import Figure, Outcome, Record, line
from tests.gpu.table import succeeded, table, verdict


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record("law", tmp_path / "law.json")


def written(record: Record) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(record.file.read_text())
    return content


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("share", 0.6, "", 0.6), True),
        (Figure("share", 0.59, "", 0.6), False),
        (Figure("error", 0.1, "", 0.1, at_most=True), True),
        (Figure("error", 0.11, "", 0.1, at_most=True), False),
        (Figure("share", 0.1, "", 0.6, judged=False), None),
        (Figure("rate", 100.0), None),
        (Figure("holds", value=True, target=True), True),
        (Figure("holds", value=False, target=True, judged=False), None),
    ],
)
def test_a_figure_is_met_by_its_bound(figure: Figure, met: bool | None) -> None:
    assert figure.met is met


def test_every_figure_is_in_the_file_at_once(record: Record) -> None:
    record.figure("rate", 12.345678, "rows/s")
    assert written(record)["outcome"] == "running"
    assert written(record)["figures"][0]["value"] == 12.3457
    record.check("answers are right", holds=True)
    assert len(written(record)["figures"]) == 2


def test_a_rehearsal_judges_checks_but_no_speed(tmp_path: Path) -> None:
    record = Record("law", tmp_path / "law.json", rehearsal=True)
    record.figure("share", 0.1, "", 0.6)
    record.check("answers are right", holds=False)
    record.end(Outcome.COMPLETE)
    assert [figure["met"] for figure in written(record)["figures"]] == [None, False]
    assert not succeeded({"law": written(record)})


def test_a_section_that_raises_is_noted_and_the_part_goes_on(record: Record) -> None:
    with record.section("graphs"):
        raise RuntimeError("capture failed\nsecond line")
    with record.section("rates"):
        record.figure("rate", 1.0)
    assert written(record)["failures"] == {"graphs": "RuntimeError: capture failed"}
    assert written(record)["figures"][0]["name"] == "rate"


def test_a_missing_package_names_the_remedy(record: Record) -> None:
    with record.section("compilers"):
        import no_such_package  # type: ignore[import-not-found]  # noqa: F401
    (why,) = written(record)["missing"].values()
    assert "no_such_package" in why
    assert "make gpu-bundle" in why


def test_the_table_prints_a_missed_target_as_missed_and_a_broken_check_by_name(
    record: Record,
) -> None:
    record.figure("prefill: share", 0.31, "", 0.5)
    record.figure("p99: error", 0.04, "", 0.1, at_most=True)
    record.check("batches are split", holds=False, detail="0 splits")
    record.leave_out("FlashInfer", "not built")
    record.end(Outcome.COMPLETE)
    text = table({"law": written(record)})
    assert "0.31     >= 0.5  NO" in text
    assert "0.04     <= 0.1  yes" in text
    assert "DOES NOT HOLD: batches are split (0 splits)" in text
    assert "left out: FlashInfer: not built" in text
    assert verdict({"law": written(record)}) == (
        "1 of 1 parts complete, 0 of 1 checks hold, 1 of 2 targets met"
    )


def test_a_missed_target_is_no_failure_but_a_part_that_was_cut_off_is(record: Record) -> None:
    record.figure("share", 0.1, "", 0.6)
    record.end(Outcome.COMPLETE)
    assert succeeded({"law": written(record)})
    record.end(Outcome.CUT_OFF, "its limit of 45 s")
    assert not succeeded({"law": written(record)})


def test_a_line_says_what_was_measured_and_the_verdict() -> None:
    assert (
        line(Figure("share", 0.5, "of it", 0.6)) == "share: 0.5 of it, target at least 0.6: MISSED"
    )
    assert line(Figure("backend", "gather-sdpa")) == "backend: gather-sdpa"
