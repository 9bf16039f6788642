"""OpenVINO's step: under our scheduler and ledger, over blocks of its own size, what transformers would say.

In float32 to rounding; in bfloat16 as near to float64 as transformers' own bfloat16 comes.
"""

import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import openvino as ov
import pytest
import torch

from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import StepThread, ThreadRunner
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.openvino.backend import computes_bfloat16
from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.scenarios import Scenario, Tally, prompts, references
from tests.unit.runtime.models.decoders.teacher import accepts, mean_errors, measured_eps, teacher
from tests.unit.runtime.models.decoders.tiny_models import VOCABULARY, save

OPTIONS = StepOptions(
    Compute.OPENVINO, DType.FLOAT32, cache_bytes=1 << 20, host_cache_bytes=1 << 20
)
DTYPES = (DType.FLOAT32, DType.BFLOAT16)
FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma3", "gpt2")
LENGTHS = (150, 97)
SCALE = 4
"""Its blocks hold 32 positions: prompts must be longer to share any."""


@pytest.fixture(scope="module", params=FAMILIES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module", params=DTYPES)
def step(request: pytest.FixtureRequest, folder: Path) -> TorchStep:
    if request.param is DType.BFLOAT16 and not computes_bfloat16():
        pytest.skip("this processor has no instructions for bfloat16")
    return open_step(folder, replace(OPTIONS, dtype=request.param), "tiny")


def dtype_of(step: TorchStep) -> torch.dtype:
    """Return what `step` computes in."""
    dtype: torch.dtype = getattr(torch, step.info.dtype)
    return dtype


def bound(step: TorchStep, folder: Path, ids: list[int], wanted: torch.Tensor) -> float:
    """Return by how much a logit after `ids` may differ from float64's `wanted`."""
    if dtype_of(step) is torch.float32:
        return 1e-3 * wanted.abs().max().item()
    rounded = teacher(folder, torch.bfloat16)(ids)
    return 2 * (rounded - wanted).abs().max().item()


def test_its_blocks_are_of_its_own_size_and_state_says_what_computes(step: TorchStep) -> None:
    assert (step.info.attention, step.info.kv.block_tokens) == ("openvino", 32)


def test_no_thread_is_pinned_to_a_core_that_other_pods_use_too(step: TorchStep) -> None:
    decoder: Any = step._decoder
    compiled = decoder._request.get_compiled_model()
    assert compiled.get_property("ENABLE_CPU_PINNING") is False


def test_a_block_holds_keys_and_values_in_the_dtype_of_the_model(step: TorchStep) -> None:
    layer = step._store.layers[0]
    assert layer.dtype is dtype_of(step)
    assert len(step._store.layers) * 2 * layer[0].nbytes == step.info.kv.block_bytes


def test_chunks_over_scattered_blocks_give_the_logits_of_the_whole(
    step: TorchStep, folder: Path
) -> None:
    """Beyond several blocks and any sliding window; some steps want no logits of a row, one wants two."""
    random, judge = np.random.default_rng(0), teacher(folder, torch.float64)
    ids = [random.integers(0, VOCABULARY, length) for length in LENGTHS]
    wanted = [judge(row.tolist()) for row in ids]
    within = [bound(step, folder, row.tolist(), w) for row, w in zip(ids, wanted, strict=True)]
    tables = np.array([[9, 2, 7, 0, 4], [1, 8, 3, 6, 0]], np.int32)
    at = np.zeros(2, np.int64)
    for ends in ((70, 1), (71, 33), (72, 34), (110, 96), (150, 97)):
        counts = np.array(ends) - at
        starts = np.concatenate([[0], np.cumsum(counts)])
        fed = [row[a : a + n] for row, a, n in zip(ids, at, counts, strict=True)]
        packed = positions_of(np.concatenate(fed), tables, at, starts, 32)
        packed.last = np.array([starts[2] - 1, starts[1] - 1])
        got = torch.as_tensor(step._decoder.forward(packed)).double()
        expected = torch.stack([wanted[1][ends[1] - 1], wanted[0][ends[0] - 1]])
        assert ((got - expected).abs().amax(dim=1) < torch.tensor(within[::-1])).all()
        at = np.array(ends)


def test_on_average_its_logits_are_as_near_to_float64_as_transformers_own(
    step: TorchStep, folder: Path
) -> None:
    ours, theirs = mean_errors(step, folder)
    assert ours < 1.5 * theirs


def test_a_step_run_again_gives_the_same_bits(step: TorchStep) -> None:
    ids = np.random.default_rng(2).integers(0, VOCABULARY, 72)
    table = np.array([[4, 1, 6]], np.int32)

    def run() -> list[bytes]:
        fed = [
            positions_of(ids[a:b], table, np.array([a]), np.array([0, b - a]), 32)
            for a, b in pairwise((0, 50, 71, 72))
        ]
        return [np.asarray(step._decoder.forward(packed)).tobytes() for packed in fed]

    assert run() == run()


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
    expected = teacher(folder, torch.float64)(ids.tolist())
    within = bound(step, folder, ids.tolist(), expected)
    assert (got[0].double() - expected[-1]).abs().max() < within


def test_under_any_schedule_every_token_is_as_good_as_the_references_best(
    step: TorchStep, folder: Path
) -> None:
    dtype = dtype_of(step)
    eps, judge = measured_eps(folder, dtype, SCALE), teacher(folder, dtype)
    expected, tally, matched, total = references(folder, torch.float64, SCALE), Tally(), 0, 0
    runner = ThreadRunner(step, StepThread())
    for seed in range(4):
        runner.depth = seed % 2
        scenario = Scenario(step, seed, runner, SCALE)
        scenario.live(turns=15)
        scenario.check_ends()
        scenario.add_to(tally)
        for which, tokens, ids in scenario.answers():
            matched, total = matched + (ids == list(expected[which][:tokens])), total + 1
            assert accepts(judge, prompts(SCALE)[which], ids, eps), (seed, which)
    runner.close()
    print(
        f"{folder.name} {dtype}: eps {eps:.2e}, {matched} of {total} answers equal float64's, {tally}"
    )
    assert total > 20
    assert matched > 0.9 * total or dtype is torch.bfloat16
    assert tally.preemptions > 0
    assert tally.prefix_hit_tokens > 0


def test_what_it_does_not_compute_is_rejected_at_load(tmp_path: Path) -> None:
    with pytest.raises(
        ModelLoadFailed,
        match="does not support a soft cap of scores; unset PENSTOCK_COMPUTE_BACKEND",
    ):
        open_step(save("gemma2", tmp_path / "gemma2"), OPTIONS, "tiny")
    folder = save("llama", tmp_path / "llama")
    exact = StepOptions(Compute.OPENVINO, DType.FLOAT64, cache_bytes=1 << 20)
    with pytest.raises(ModelLoadFailed, match="float32 and bfloat16 on a CPU, not float64 on cpu"):
        open_step(folder, exact, "tiny")


def test_bfloat16_is_rejected_where_the_processor_has_no_instructions_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ov.Core, "get_property", lambda *_: ["FP32", "INT8"])
    rounded = replace(OPTIONS, dtype=DType.BFLOAT16)
    with pytest.raises(
        ModelLoadFailed,
        match="has none: unset PENSTOCK_COMPUTE_BACKEND, or set PENSTOCK_DTYPE=float32",
    ):
        open_step(save("llama", tmp_path), rounded, "tiny")


@pytest.mark.usefixtures("without_openvino")
def test_a_named_backend_that_is_not_installed_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(
        ModelLoadFailed,
        match=r"PENSTOCK_COMPUTE_BACKEND=OpenVINO requires OpenVINO, .* unset it, or use an image",
    ):
        open_step(save("llama", tmp_path), OPTIONS, "tiny")


def test_openvinos_telemetry_is_never_imported() -> None:
    """The package reports its import over the network otherwise."""
    assert "openvino" in sys.modules
    assert sys.modules.get("openvino_telemetry") is None
