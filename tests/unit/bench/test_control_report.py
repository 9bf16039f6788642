"""The bench of laws reports the best single setting only of a run that searched it."""

import sys
from collections.abc import Sequence
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from tests.bench.control import __main__ as bench
from tests.bench.control import plan, recovery
from tests.bench.control.jobs import CLAIRVOYANT, Result
from tests.unit.simulator.test_bench_figures import everywhere

TARGET = "gap closed to best single setting"


@pytest.mark.parametrize("grid", [True, False])
def test_without_the_grid_the_gap_to_the_best_single_setting_is_not_measured(
    grid: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results = [
        *everywhere(plan.DEFAULT, 12.0),
        *everywhere(CLAIRVOYANT, 10.0),
        *everywhere("hpa-70", 50.0),
    ]
    record = dict[str, Any]()

    def known(*_: object) -> Sequence[Result]:
        return results

    monkeypatch.setattr(sys, "argv", ["bench", "--traces", str(tmp_path), "--no-sensitivity", *([] if grid else ["--no-grid"])])  # fmt: skip
    for file in plan.TRACES.values():
        (tmp_path / file).touch()
    monkeypatch.setattr(bench, "_results", known)
    monkeypatch.setattr(bench, "_write", record.update)
    monkeypatch.setattr(recovery, "recovery", lambda law: recovery.Recovery(law, 0.0, 1, 1.0))
    assert bench.main() == 0
    printed = capsys.readouterr().out
    (figure,) = (figure for figure in record["targets"] if figure["name"] == TARGET)
    (line,) = (line for line in printed.splitlines() if TARGET in line)
    if grid:
        assert figure["measured"] == pytest.approx(0.95)
        assert "not searched" not in printed
        assert "not measured" not in line
    else:
        assert isnan(figure["measured"])
        assert not record["best_single_setting"]
        assert not record["oracle_setting"]
        assert "not searched" in printed
        assert "not measured" in line
