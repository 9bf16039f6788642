"""`kubectl penstock batches` lists what the batch service of a namespace has not finished."""

from pathlib import Path
from typing import Any

import pytest

from penstock_kubectl.__main__ import main
from penstock_kubectl.batches import page
from tests.unit.kubectl.stage import BATCHES, Stage, kubeconfig, pool

NOW = 1_800_000_000.0


def batch(id: str, status: str, expires: float, completed: int, total: int) -> dict[str, Any]:
    return {
        "id": id, "model": "chat", "status": status, "created_at": NOW - 10,
        "expires_at": expires, "counts": {"total": total, "completed": completed, "failed": 10},
    }  # fmt: skip


def run(folder: Path, status: dict[str, Any] | None) -> int:
    stage = Stage(pool(), [], [])
    if status is not None:
        stage.objects[BATCHES] = status
    with kubeconfig(stage, folder) as file:
        return main(["batches", "--kubeconfig", str(file)])


def test_the_batches_are_listed_by_their_deadlines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    later = batch("batch_2", "in_progress", NOW + 7200, 100, 7310)
    sooner = batch("batch_1", "finalizing", NOW + 60, 40, 50)
    assert run(tmp_path, {"batches": [later, sooner], "models": ["chat"]}) == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.strip() == "Batches of team-a"
    cells = [row.split() for row in rows]
    assert cells[0] == ["batch_1", "chat", "finalizing", "40", "10", "50", "-", "2027-01-15", "08:01", "UTC"]  # fmt: skip
    assert cells[1][:6] == ["batch_2", "chat", "in_progress", "100", "10", "7310"]


def test_the_rate_that_is_needed_is_what_is_left_over_the_time_that_remains() -> None:
    table: Any = page({"batches": [batch("batch_2", "in_progress", NOW + 7200, 100, 7310)]}, "team-a", NOW)  # fmt: skip
    assert list(table.columns[6].cells) == ["1.00"]
    late: Any = page({"batches": [batch("batch_3", "in_progress", NOW - 1, 0, 20)]}, "team-a", NOW)
    assert list(late.columns[6].cells) == ["-"]


def test_without_batches_the_models_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {"batches": [], "models": ["chat", "embed"]}) == 0
    assert "no unfinished batch in team-a; models that can be used: chat, embed" in capsys.readouterr().out  # fmt: skip


def test_a_namespace_without_the_service_is_an_error_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, None) == 1
    assert "the batch service of team-a not found" in capsys.readouterr().err
