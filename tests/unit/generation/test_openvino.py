"""OpenVINO's step: under our scheduler and ledger, over blocks of its own size, what transformers would say."""

import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from penstock_runtime.generation.options import Compute, DType, StepOptions
from penstock_runtime.generation.runner import InlineRunner
from penstock_runtime.generation.step.open import open_step
from penstock_runtime.generation.step.packed import positions_of
from penstock_runtime.generation.step.torch_step import TorchStep
from penstock_runtime.models.base import ModelLoadFailed

from .models import VOCABULARY, save
from .scenarios import Scenario, Tally, prompts, references
from .teacher import accepts, measured_eps, teacher

OPTIONS = StepOptions(
    Compute.OPENVINO, DType.FLOAT32, cache_bytes=1 << 20, host_cache_bytes=1 << 20
)
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3", "gpt2")
LENGTHS = (150, 97)
SCALE = 4
"""Its blocks hold 32 positions: prompts must be longer to share any."""


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def step(folder: Path) -> TorchStep:
    return open_step(folder, OPTIONS, "tiny")


def test_its_blocks_are_of_its_own_size_and_state_says_what_computes(step: TorchStep) -> None:
    assert (step.info.attention, step.info.kv.block_tokens) == ("openvino", 32)


def test_chunks_over_scattered_blocks_give_the_logits_of_the_whole(
    step: TorchStep, folder: Path
) -> None:
    """Beyond several blocks and any sliding window; some steps want no logits of a row, one wants two."""
    random, judge = np.random.default_rng(0), teacher(folder, torch.float64)
    ids = [random.integers(0, VOCABULARY, length) for length in LENGTHS]
    wanted = [judge(one.tolist()) for one in ids]
    tables = np.array([[9, 2, 7, 0, 4], [1, 8, 3, 6, 0]], np.int32)
    at = np.zeros(2, np.int64)
    for ends in ((70, 1), (71, 33), (72, 34), (110, 96), (150, 97)):
        counts = np.array(ends) - at
        starts = np.concatenate([[0], np.cumsum(counts)])
        fed = [one[a : a + n] for one, a, n in zip(ids, at, counts, strict=True)]
        packed = positions_of(np.concatenate(fed), tables, at, starts, 32)
        packed.last = np.array([starts[2] - 1, starts[1] - 1])
        got = torch.as_tensor(step._decoder.forward(packed)).double()
        expected = torch.stack([wanted[1][ends[1] - 1], wanted[0][ends[0] - 1]])
        assert (got - expected).abs().max() < 1e-3 * expected.abs().max()
        at = np.array(ends)


def test_a_step_that_draws_nothing_still_stores_what_it_was_fed(
    step: TorchStep, folder: Path
) -> None:
    ids = np.random.default_rng(1).integers(0, VOCABULARY, 40)
    table = np.array([[5, 3]], np.int32)
    for first, end in pairwise((0, 39, 40)):
        packed = positions_of(
            ids[first:end],
            table,
            np.array([first]),
            np.array([0, end - first]),
            32,
        )
        if end < 40:
            packed.last = packed.last[:0]
        got = torch.as_tensor(step._decoder.forward(packed))
        assert len(got) == len(packed.last)
    expected = teacher(folder, torch.float64)(ids.tolist())[-1]
    assert (got[0].double() - expected).abs().max() < 1e-3 * expected.abs().max()


def test_under_any_schedule_every_token_is_as_good_as_the_references_best(
    step: TorchStep, folder: Path
) -> None:
    eps, judge = measured_eps(folder, torch.float32, SCALE), teacher(folder, torch.float32)
    expected, tally, matched, total = references(folder, torch.float64, SCALE), Tally(), 0, 0
    for seed in range(4):
        scenario = Scenario(step, seed, InlineRunner(step), SCALE)
        scenario.live(turns=15)
        scenario.check_ends()
        scenario.add_to(tally)
        for which, tokens, ids in scenario.answers():
            matched, total = matched + (ids == list(expected[which][:tokens])), total + 1
            assert accepts(judge, prompts(SCALE)[which], ids, eps), (seed, which)
    print(f"{folder.name}: eps {eps:.2e}, {matched} of {total} answers equal float64's, {tally}")
    assert total > 20
    assert matched > 0.9 * total
    assert tally.preemptions > 0
    assert tally.prefix_hit_tokens > 0


def test_what_it_does_not_compute_is_refused_at_load(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="no soft cap of scores; unset PENSTOCK_STEP"):
        open_step(save("gemma2", tmp_path / "gemma2"), OPTIONS, "tiny")
    folder = save("llama", tmp_path / "llama")
    exact = StepOptions(Compute.OPENVINO, DType.FLOAT64, cache_bytes=1 << 20)
    with pytest.raises(ModelLoadFailed, match="float32 on a CPU, not float64 on cpu"):
        open_step(folder, exact, "tiny")
    invariant = StepOptions(
        Compute.OPENVINO, DType.FLOAT32, cache_bytes=1 << 20, batch_invariant=True
    )
    with pytest.raises(ModelLoadFailed, match="OpenVinoDecoder runs on openvino"):
        open_step(folder, invariant, "tiny")


def test_an_image_without_openvino_says_so(tmp_path: Path, monkeypatch: Any) -> None:
    for name in [name for name in sys.modules if "step.openvino" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ModelLoadFailed, match=r"use an image with penstock\[openvino\]"):
        open_step(save("llama", tmp_path), OPTIONS, "tiny")
