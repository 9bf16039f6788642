"""The bench on a device: what a step must read is counted by hand, and shares and ratios are of what was measured."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from penstock_runtime.engine.continuous.messages import StepReport
from tests.bench.generation import device, models, roofline
from tests.bench.generation.peers import penstock
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


def test_a_line_is_the_best_rate_and_the_share_of_the_last_works_reads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(penstock, "CACHE_BYTES", 1 << 22)
    ours = device.RecordedPeer(folder, "float32", torch.device("cpu"))
    size = WorkSize(prompt=8, answer=6, rounds=1, repeats=2)
    measured = device.line(ours, 3, size, READ, 10.0)
    assert measured.decoding is not None
    assert (measured.decoding.rows, measured.decoding.steps) == (3, 5)
    assert measured.share_of_bandwidth == measured.decoding.gb_per_second / 10.0
    assert measured.tokens_per_second > 0


def test_the_operations_of_a_prompt_are_its_matrices_and_the_lower_triangle_of_attention(
    folder: Path,
) -> None:
    hidden, wide, kv = 64, 128, 32
    weights = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * wide
    per_layer = 2 * 10 * weights + 2 * 10 * 10 * hidden
    assert roofline.prompt_operations(folder, 10) == 2 * per_layer


def test_the_rate_of_matrices_counts_a_product_and_a_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([float(at) for at in range(2 * roofline.REPEATS)])
    monkeypatch.setattr(roofline, "now", lambda: next(times))
    assert roofline.matrix_rate(torch.device("cpu"), torch.float32, 8) == 2 * 8**3
