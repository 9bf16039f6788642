"""The run: its budget, parts that hang or end badly, and the bundle of what a bare machine lacks."""

import json
import os
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.gpu import __main__ as run
from tests.gpu import bundle, plan
from tests.gpu.plan import Part

PART = Part("law", "a part for tests", 5, 0)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder for results; modules are found in it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    return tmp_path


def part(folder: Path, body: str, limit: float = 30.0) -> dict[str, object]:
    """Run `body` as the process of a part."""
    (folder / "a_part.py").write_text(body)
    original = run._run

    def as_part(words: list[str], limit: float, environment: dict[str, str]) -> int | None:
        return original(["a_part", *words[1:]], limit, environment)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_run", as_part)
        return run._part(PART, folder, limit, dict(os.environ), rehearse=False)


def test_all_limits_together_are_within_nine_minutes() -> None:
    assert plan.budget() <= plan.RUN_SECONDS <= 540


def test_every_part_has_a_module_that_runs_it() -> None:
    folder = Path(run.__file__).parent / "parts"
    assert {part.name for part in plan.PARTS} == {file.stem for file in folder.glob("[a-z]*.py")}


def test_a_part_that_hangs_is_cut_off_with_its_children_and_keeps_its_figures(
    started: Path,
) -> None:
    record = {"part": "law", "outcome": "running", "why": "", "seconds": 1, "figures": [{"name": "rate"}]}  # fmt: skip
    body = f"""
import json, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path(sys.argv[2], "child").write_text(str(child.pid))
pathlib.Path(sys.argv[2], "law.json").write_text(json.dumps({record!r}))
time.sleep(600)
"""
    ended = part(started, body, limit=10.0)
    assert (ended["outcome"], ended["why"]) == ("cut off", "its limit of 10 s")
    assert ended["figures"] == [{"name": "rate"}]
    assert json.loads((started / "law.json").read_text()) == ended
    child, deadline = Path("/proc", (started / "child").read_text()), time.monotonic() + 30
    while child.exists() and " Z " not in (child / "stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_part_whose_process_dies_is_failed_and_the_run_goes_on(started: Path) -> None:
    record = part(started, "import os; os._exit(9)")
    assert (record["outcome"], record["why"]) == ("failed", "its process ended with 9")


def test_no_part_starts_without_time(started: Path) -> None:
    record = part(started, "raise SystemExit('started')", limit=1.0)
    assert (record["outcome"], record["why"]) == ("cut off", "the run had no time left")


def test_everything_is_kept_where_out_says(
    started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setenv("OUT", str(out))
    record = run._part(PART, started, 1.0, {}, rehearse=False)
    run._keep(started, {"law": record})
    assert {file.name for file in out.iterdir()} == {"gpu.json", "gpu.txt", "gpu.pods.txt"}
    assert json.loads((out / "gpu.json").read_text())["parts"]["law"]["outcome"] == "cut off"


def test_the_bundle_is_the_pinned_runtime_without_what_the_machine_has() -> None:
    wanted = {bundle.name_of(each) for each in bundle.requirements(bundle.CHECKOUT / "pyproject.toml")}  # fmt: skip
    assert {"pydantic", "msgspec", "httptools", "uvloop", "llguidance", "nvidia-ml-py"} <= wanted
    assert not wanted & {"torch", "transformers", "aiohttp", "numpy", "openvino", "s3fs"}
    assert not wanted & {"onnx", "onnxruntime", "onnxscript"}


def test_a_wheel_is_unpacked_and_its_size_counted(tmp_path: Path) -> None:
    wheel = tmp_path / "thing-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("thing/__init__.py", "x" * 2**20)
    bundled = bundle.unpacked(wheel, tmp_path / "bundle")
    assert bundled == bundle.Bundled(wheel.name, 1.0)
    assert (tmp_path / "bundle" / "thing" / "__init__.py").stat().st_size == 2**20


def test_a_second_run_clears_the_results_of_the_first_and_keeps_its_models(tmp_path: Path) -> None:
    for name in ("law.json", "gpu.json", "gpu.png", "models/llama/config.json", "pod-1/log"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    run._clear(tmp_path)
    left = [str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()]
    assert left == ["models/llama/config.json"]
