"""The tuner with a real pod: it measures, writes its results, and continues where it was."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penstock_tuner.record import Event, EventKind, StudyRecord
from tests.integration.runtime.test_every_generation_ends import SOURCE
from tests.support.runtime.process import INHERITED_ENVIRONMENT
from tests.unit.runtime.protocols.openai.served import save_tiny_model

EMULATED = "penstock_runtime.models.emulated:create"


def model(factory: str = EMULATED, **arguments: str) -> str:
    module = {"factory": factory, "arguments": arguments}
    source = {"type": "Module", "module": module}
    return json.dumps({"task": "Tensor", "name": "tuned", "source": source})


def tuner(
    folder: Path, spec: str, *words: str, **settings: str
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "penstock_tuner", "--folder", str(folder / "tune"), *words]
    environ = {**INHERITED_ENVIRONMENT, "PENSTOCK_MODEL": spec, "OMP_NUM_THREADS": "1", **settings}
    return subprocess.run(
        argv, env=environ, capture_output=True, text=True, check=False, timeout=280
    )


def read(folder: Path, name: str) -> Any:
    return json.loads((folder / "tune" / name).read_text())


def test_terminated_it_ends_and_another_continues_from_its_lines_to_a_front_and_a_candidate(
    tmp_path: Path,
) -> None:
    spec = model(a_milliseconds="20", c_milliseconds="2", max_rows="64")
    words = [
        "--objective-ms=30000",
        "--minutes=0.2",
        "--round-seconds=0.5",
        "--clients=4",
        "--events",
    ]
    record = tmp_path / "record.json"
    argv = [sys.executable, "-m", "penstock_tuner", f"--folder={tmp_path / 'a'}", *words]
    environ = {**INHERITED_ENVIRONMENT, "PENSTOCK_MODEL": spec, "OMP_NUM_THREADS": "1"}
    kept = StudyRecord()
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            event = Event.read(line)
            if event is not None and event.tried is not None:
                kept = kept.with_trial(event.study, event.tried, event.spent_seconds)
                running.terminate()
        assert running.wait(60) == 143
    assert kept.tried
    record.write_text(kept.text())
    second = tuner(tmp_path, spec, *words, f"--resume={record}")
    assert second.returncode == 0, second.stderr
    events = [Event.read(line) for line in second.stdout.splitlines()]
    begun = next(each for each in events if each is not None and each.kind is EventKind.READY)
    assert (begun.study, begun.spent_seconds) == (kept.study, kept.spent_seconds)
    results = read(tmp_path, "result.json")
    assert results["tried"][0]["batch_size"] == kept.tried[0].settings.batch_size
    assert_front_and_candidate(tmp_path)
    third = tuner(tmp_path, spec, *words[:-1])
    assert third.returncode == 0, third.stderr
    assert f"{len(results['tried'])} trials" in third.stdout
    assert "batch_size" not in third.stderr
    assert read(tmp_path, "result.json") == results


def assert_front_and_candidate(folder: Path) -> None:
    """Check that the candidate policy has the first setting of a front that attains."""
    front = read(folder, "result.json")["front"]
    assert 1 <= front[0]["batch_size"] <= 4
    assert front[0]["goodput"] > 0
    assert all(each["attainment"] >= 0.99 for each in front)
    batching = read(folder, "policy.json")["spec"]["candidate"]["defaults"]["batching"]
    assert batching["size"]["max"] == front[0]["batch_size"]


def test_a_model_that_does_not_load_is_reported_with_the_pods_last_words(tmp_path: Path) -> None:
    done = tuner(tmp_path, model("nowhere:create"), "--objective-ms", "500")
    assert done.returncode == 1
    assert "error: the pod ended with 1" in done.stderr
    assert "nowhere" in done.stderr
    assert "Traceback (most recent call last)" not in done.stderr.split("error:")[0]


def test_a_load_that_the_pod_rejects_ends_the_search_before_it_begins(tmp_path: Path) -> None:
    tensor = {"name": "INPUT", "datatype": "FP32", "shape": [1, 7], "data": [0.5] * 7}
    (tmp_path / "request.json").write_text(json.dumps({"inputs": [tensor]}))
    words = ["--objective-ms=500", "--minutes=0.1", f"--request={tmp_path / 'request.json'}"]
    done = tuner(tmp_path, model(), *words)
    assert done.returncode == 1
    assert "error: a request of this load fails: 400" in done.stderr
    assert "correct --rows, --prompt-tokens, --output-tokens or --request" in done.stderr
    assert not (tmp_path / "tune" / "result.json").exists()


def test_a_pod_ends_with_a_tuner_that_is_killed(tmp_path: Path) -> None:
    words = ["--objective-ms=30000", "--minutes=5", "--events", f"--folder={tmp_path}"]
    argv = [sys.executable, "-m", "penstock_tuner", *words]
    environ = {**INHERITED_ENVIRONMENT, "PENSTOCK_MODEL": model(), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        events = map(Event.read, running.stdout)
        assert next(events) is not None
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        (pod,) = children.read_text().split()
        running.kill()
    for _ in range(300):
        if (
            not Path(f"/proc/{pod}/cmdline").exists()
            or not Path(f"/proc/{pod}/cmdline").read_bytes()
        ):
            return
        time.sleep(0.1)
    os.kill(int(pod), signal.SIGKILL)
    pytest.fail("the runtime still runs")


def test_a_data_type_with_which_no_pod_serves_may_be_the_first(tmp_path: Path) -> None:
    words = ["--objective-ms=30000", "--minutes=0.3", "--round-seconds=0.3", "--clients=2"]
    done = tuner(tmp_path, model(max_rows="64"), *words, "--dtypes=Int8,Float32")
    assert done.returncode == 0, done.stderr
    results = read(tmp_path, "result.json")
    assert {each["dtype"] for each in results["front"]} == {"Float32"}
    assert {each["dtype"] for each in results["tried"] if each.get("failure")} <= {"Int8"}


def test_what_it_lacks_is_said(tmp_path: Path) -> None:
    said = tuner(tmp_path, model(), "--first-token-ms", "500").stderr
    assert "the model generates no text" in said
    assert "--objective-ms" in tuner(tmp_path, model()).stderr


def test_a_model_that_generates_text_is_tuned_for_its_tokens(tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    folder.mkdir()
    save_tiny_model(folder)
    spec = json.dumps({"name": "tiny", "task": "TextGeneration", "source": SOURCE})
    settings = {
        "PENSTOCK_MODEL_FOLDER": str(folder),
        "PENSTOCK_COMPUTE_BACKEND": "Torch",
        "PENSTOCK_DTYPE": "float32",
    }
    words = [
        "--first-token-ms=30000", "--output-token-ms=20000", "--minutes=0.15", "--round-seconds=0.5",
        "--clients=4", "--prompt-tokens=4,9", "--output-tokens=3,6", "--rate=1000",
        "--batched-tokens=32,64",
    ]  # fmt: skip
    done = tuner(tmp_path, spec, *words, **settings)
    assert done.returncode == 0, done.stderr
    assert_front_and_candidate(tmp_path)
    results = read(tmp_path, "result.json")
    assert results["objective"]["metric"] == "TimeToFirstToken"
    assert all("queue_delay_milliseconds" not in each for each in results["tried"])
    assert all(each["failed"] == 0 for each in results["front"])
    assert all(each["batched_tokens"] in (32, 64) for each in results["tried"])
    assert any("at_rate" in each for each in results["tried"])
    assert "delay ms" not in done.stdout
