"""A part on a machine that lacks something says what, and runs nothing."""

import json
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu import part
from tests.gpu.plan import PARTS, Setting

GIBIBYTE = 2**30
LARGEST = max(PARTS, key=lambda each: each.gibibytes)


def setting(device: str, folder: Path, *, rehearsal: bool = False) -> Setting:
    return Setting(torch.device(device), rehearsal, folder, 0.0)


def test_without_a_device_only_a_rehearsal_runs(tmp_path: Path) -> None:
    assert part.lacking(LARGEST, setting("cpu", tmp_path)).startswith("no CUDA device")
    assert part.lacking(LARGEST, setting("cpu", tmp_path, rehearsal=True)) == ""


@pytest.mark.parametrize(
    ("free", "runs"), [(LARGEST.gibibytes, True), (LARGEST.gibibytes - 1, False)]
)
def test_a_card_that_is_too_small_is_named_with_what_is_free(
    free: float, runs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (int(free * GIBIBYTE), 80 * GIBIBYTE)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device: sizes)
    missing = part.lacking(LARGEST, setting("cuda", tmp_path))
    assert (missing == "") is runs
    assert (
        runs or missing == f"16 GiB of free device memory are needed, {free:.1f} of 80.0 are free"
    )


def test_a_part_that_a_package_is_missing_for_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["part", "law", str(tmp_path), "30", "--rehearse"])
    monkeypatch.setitem(sys.modules, "tests.gpu.parts.law", None)
    assert part.main() == 0
    record = json.loads((tmp_path / "law.json").read_text())
    assert record["outcome"] == "missing"
    assert "tests.gpu.parts.law" in record["why"]
    assert "make gpu-bundle" in record["why"]
