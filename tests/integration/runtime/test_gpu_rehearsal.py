"""The run on a GPU, rehearsed on a CPU: the same command and code with tiny sizes, so that it cannot rot."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gpu.plan import PARTS

CHECKOUT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(1500)
"""A minute of one core; a busy machine takes many of them."""


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the rehearsal wrote."""
    folder, out = tmp_path_factory.mktemp("gpu"), tmp_path_factory.mktemp("out")
    environment = {**os.environ, "PYTHON": sys.executable, "OUT": str(out), "OMP_NUM_THREADS": "1"}
    command = ["bash", str(CHECKOUT / "tests/gpu/run.sh"), "--rehearse", "--folder", str(folder)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=1400
    )
    print(done.stdout, done.stderr)
    content: dict[str, Any] = json.loads((out / "gpu.json").read_text())
    content["code"], content["pictures"] = done.returncode, (out / "gpu.png").exists()
    return content


@pytest.mark.parametrize("part", [part.name for part in PARTS])
def test_every_part_is_complete_and_all_its_checks_hold(
    rehearsed: dict[str, Any], part: str
) -> None:
    record = rehearsed["parts"][part]
    assert record["outcome"] == "complete", record
    assert record["figures"]
    assert [each for each in record["figures"] if each["target"] is True and not each["met"]] == []


def test_the_command_reports_success_and_leaves_figures_and_pictures(
    rehearsed: dict[str, Any],
) -> None:
    assert rehearsed["code"] == 0
    assert rehearsed["pictures"]
    assert rehearsed["machine"]["missing"] == []
    judged = [
        each
        for record in rehearsed["parts"].values()
        for each in record["figures"]
        if each["target"] is not True and each["met"] is not None
    ]
    assert judged == [], "a CPU says nothing about speed"
