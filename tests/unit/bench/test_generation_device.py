"""The bench on a device: what a step must read is counted by hand, and shares and ratios are of what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from penstock_runtime.engine.continuous.messages import StepReport
from tests.bench.generation import device, models, roofline
from tests.bench.generation.peers import penstock, transformers_batch
from tests.bench.generation.roofline import Footprint, decoding, footprint
from tests.bench.generation.workload import WorkSize

READ = Footprint(weights=1_000_000, kv_token=1_000)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return models.write(models.DEVICE_SHAPES["tiny"], tmp_path_factory.mktemp("models"))


def test_a_step_reads_every_weight_but_the_embedding_and_its_rows_keys_and_values(
    folder: Path,
) -> None:
    hidden, wide, kv, vocabulary = 64, 128, 32, models.VOCABULARY
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * wide + 2 * hidden
    weights = 2 * layer + hidden + hidden * vocabulary
    sizes = footprint(folder, torch.bfloat16)
    assert sizes == Footprint(weights=2 * weights, kv_token=2 * 2 * 2 * kv)
    assert sizes.read(10) == 2 * weights + 10 * 256


def test_an_embedding_that_is_the_head_too_is_read(folder: Path, tmp_path: Path) -> None:
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    model.config.tie_word_embeddings = True
    model.tie_weights()
    model.save_pretrained(tmp_path)
    assert footprint(tmp_path, torch.float32) == footprint(folder, torch.float32)


def test_only_steps_in_which_all_rows_decode_count_with_the_time_between_them() -> None:
    reports = [
        StepReport(64, 0, 64, 9.0, 0.0),
        StepReport(0, 2, 1_000, 0.001, 0.0),
        StepReport(0, 2, 3_000, 0.002, 0.001),
        StepReport(0, 1, 3_000, 9.0, 0.0),
    ]
    lines = decoding(reports, 2, READ)
    assert lines is not None
    assert (lines.rows, lines.steps) == (2, 2)
    assert lines.median_seconds == pytest.approx(0.002)
    assert lines.gb_per_second == pytest.approx((2_000_000 + 4_000_000) / 0.004 / 1e9)
    assert decoding(reports, 3, READ) is None


def test_a_copy_is_read_and_written(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([float(at) for at in range(2 * roofline.REPEATS)])
    monkeypatch.setattr(roofline, "now", lambda: next(times))
    assert roofline.bandwidth(torch.device("cpu"), 1 << 10) == pytest.approx(2 * 1024 / 1e9)


def test_the_bench_runs_on_a_cpu_and_reports_why_a_peer_is_absent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "bandwidth", lambda _device: 10.0)
    monkeypatch.setattr(device, "BATCHES", (1, 3))
    monkeypatch.setattr(penstock, "CACHE_BYTES", 1 << 22)
    monkeypatch.setattr(device, "peers", lambda *_: "not here")
    size = WorkSize(prompt=8, answer=6, rounds=1, repeats=1)
    measured: Any = device.measure(folder, "float32", torch.device("cpu"), size)
    assert json.loads(json.dumps(measured)) == measured
    assert (measured["device"], measured["peer_absent"]) == ("cpu", "not here")
    assert [line["batch"] for line in measured["lines"]] == [1, 3]
    for line in measured["lines"]:
        assert line["decoding"]["steps"] == 5
        assert line["share_of_bandwidth"] == line["decoding"]["gb_per_second"] / 10.0
        assert (line["peers"], line["ratio"]) == (None, None)


def test_a_ratio_is_ours_over_the_peers() -> None:
    assert device.Line(1, None, None, 300.0, 150.0).ratio == 2.0
    assert device.Line(1, None, None, 300.0, None).ratio is None


def test_a_peer_that_does_not_run_reports_the_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(*_: object) -> None:
        raise ValueError("no such kernel")

    monkeypatch.setattr(transformers_batch, "Peer", absent)
    assert "no such kernel" in str(device.peers(folder, "float32", "cpu", device.QUICK))
