"""`python -m penstock_simulator simulate`: short traces count, and what no run can use is refused in one line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock_simulator.__main__ import main

TOKENS = '{"timestamp": %d, "input_length": 200, "output_length": 20}'


def written(path: Path, lines: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def run(folder: Path, trace: str, *words: str) -> int:
    files = ("--json", str(folder / "a.json"), "--plot", str(folder / "a.png"))
    return main(["simulate", "--trace", trace, *words, *files])


def figures(folder: Path) -> dict[str, Any]:
    (result,) = json.loads((folder / "a.json").read_text(encoding="utf-8"))["runs"]
    return dict(result)


@pytest.mark.parametrize(("seconds", "warm"), [(60.0, 6.0), (1500.0, 120.0)])
def test_attainment_leaves_out_at_most_a_tenth_of_a_trace(
    tmp_path: Path, seconds: float, warm: float
) -> None:
    times = np.linspace(0.0, seconds, 601)
    trace = written(tmp_path / "even.txt", [str(time) for time in times])
    assert run(tmp_path, trace, "--mean-replicas", "0", "--law", "fixed-4") == 0
    assert figures(tmp_path)["requests"] == (times >= warm).sum()
    assert figures(tmp_path)["attainment"] > 0.9


def test_names_in_brackets_are_printed_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = written(tmp_path / "[red]a[" / "b].txt", [str(time) for time in range(100)])
    assert run(tmp_path / "[red]a[" / "b]", trace, "--law", "x[/y]") == 2
    assert "unknown law 'x[/y]'" in capsys.readouterr().out
    assert run(tmp_path / "[/red]", trace, "--mean-replicas", "0") == 0
    printed = capsys.readouterr().out.replace("\n", "")
    assert "b]: connection routing" in printed
    assert "[/red]/a.json" in printed
    assert run(tmp_path, written(tmp_path / "[/c].txt", ["1"])) == 2
    assert "[/c].txt" in capsys.readouterr().out.replace("\n", "")


@pytest.mark.parametrize("steps", [[], ["--steps"]])
def test_a_scale_that_leaves_no_request_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], steps: list[str]
) -> None:
    trace = written(tmp_path / "few.jsonl", [TOKENS % (1000 * time) for time in range(10)])
    assert run(tmp_path, trace, "--mean-replicas", "1e-9", *steps) == 2
    assert "no request is left" in capsys.readouterr().out.replace("\n", " ")
