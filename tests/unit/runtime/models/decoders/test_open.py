"""What is not served is rejected at load, in one line that names it; what is served was tried first."""

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, Llama4Config, LlamaConfig, T5Config

from penstock_runtime.engine.continuous.service_curve import GenerationServiceCurve, GenerationSums
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders.capacity import (
    CACHE_SHARE,
    cache_share,
    fits_float32,
    max_length_of,
)
from penstock_runtime.models.decoders.load import reject_other_layers
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import GenericDecoder
from penstock_runtime.models.decoders.warm_up import timed_steps
from tests.unit.runtime.models.decoders.tiny_models import save

SMALL = StepOptions(Compute.TORCH, DType.FLOAT32, cache_bytes=1 << 18, block_tokens=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llama", tmp_path_factory.mktemp("llama"))


def edited(folder: Path, target: Path, **fields: Any) -> Path:
    config = json.loads((folder / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | fields))
    return target


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
def test_a_model_on_torch_says_what_it_holds(folder: Path, dtype: DType) -> None:
    step = open_step(folder, replace(SMALL, dtype=dtype), "tiny")
    assert isinstance(step._decoder, GenericDecoder)
    said = (step.info.attention, step.info.backend, step.info.dtype)
    assert said == ("gather-sdpa", "cpu", dtype.value)
    assert step.info.kv.blocks * step.info.kv.block_bytes <= 1 << 18
    assert step.info.max_model_len == 256
    assert step.info.prefill_token_seconds > 0


def test_another_kind_of_model_is_rejected_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="'t5' is an encoder-decoder"):
        reject_other_layers(T5Config())
    other = LlamaConfig(num_hidden_layers=2)
    other.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(
        ModelLoadFailed, match="layer type 'linear_attention' of model type 'llama'"
    ):
        reject_other_layers(other)
    with pytest.raises(ModelLoadFailed, match="'chunked_attention' of model type 'llama4'"):
        reject_other_layers(Llama4Config())
    with pytest.raises(ModelLoadFailed, match=r"config\.json"):
        open_step(edited(folder, tmp_path, model_type="no-such-model"), SMALL, "tiny")


def test_a_rotation_that_changes_with_the_length_is_rejected_beyond_its_original_length(
    tmp_path: Path,
) -> None:
    message = "rope type 'longrope' of model type 'phi3'.*at most 64, got 256"
    with pytest.raises(ModelLoadFailed, match=message):
        open_step(save("phi3", tmp_path), SMALL, "tiny")
    layered = Gemma3TextConfig(max_position_embeddings=256)
    long = {"rope_type": "longrope", "original_max_position_embeddings": 64}
    layered.rope_parameters = {"full_attention": long, "sliding_attention": {}}
    with pytest.raises(ModelLoadFailed, match="'longrope' of model type 'gemma3_text'"):
        max_length_of(layered, 65)
    assert max_length_of(layered, 64) == 64


@pytest.mark.parametrize("kind", ["default", "linear", "dynamic"])
def test_other_rotations_hold_up_to_the_models_own_bound(kind: str) -> None:
    rope = {"rope_type": kind, "rope_theta": 10_000.0, "factor": 4.0}
    config = LlamaConfig(max_position_embeddings=256, rope_parameters=rope)
    assert [max_length_of(config, asked) for asked in (None, 100, 1000)] == [256, 100, 256]


def test_a_folder_without_a_model_is_rejected(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"config\.json is missing"):
        open_step(tmp_path, SMALL, "tiny")
    with pytest.raises(ModelLoadFailed, match="does not load"):
        open_step(edited(folder, tmp_path), SMALL, "tiny")


def test_a_cache_takes_the_given_share_of_the_free_memory(folder: Path) -> None:
    given = StepOptions(Compute.TORCH, DType.FLOAT32, block_tokens=8, cache_percent=5)
    assert (cache_share(given, "cpu"), cache_share(given, "cuda")) == (0.05, 0.05)
    assert cache_share(SMALL, "cuda", 2) == CACHE_SHARE["cuda"]
    assert cache_share(given, "cpu", 2) == 0.025
    assert cache_share(replace(given, tensor_parallel=2), "cpu") == 0.05, (
        "two pods of one rank each"
    )
    free = 1 << 30
    assert fits_float32(folder, given, free)
    assert not fits_float32(folder, replace(given, cache_percent=95), 1 << 20)


def test_a_larger_share_of_the_free_memory_is_a_larger_cache(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock_runtime.models.decoders.open.free_bytes", lambda _: 1 << 19)
    options = StepOptions(Compute.TORCH, DType.FLOAT32, block_tokens=8)
    quarter, half = (
        open_step(folder, replace(options, cache_percent=percent), "tiny").info.kv.blocks
        for percent in (25, 50)
    )
    assert half == pytest.approx(2 * quarter, rel=0.2)


def test_a_cache_without_room_is_rejected_with_the_number(folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match="at least 8192 bytes, but only 5000"):
        open_step(folder, StepOptions(Compute.TORCH, DType.FLOAT32, cache_bytes=5000), "tiny")


def test_invariance_is_not_promised_on_a_gpu(folder: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=r"PENSTOCK_BATCH_INVARIANT .* on cuda: unset it"):
        open_step(folder, replace(SMALL, batch_invariant=True), "tiny", torch.device("cuda"))


def test_steps_of_many_shapes_are_timed_at_load_and_reported_as_their_own_epoch(
    folder: Path,
) -> None:
    step = open_step(folder, SMALL, "tiny")
    shapes = {
        (step_time.prefill_tokens, step_time.decode_rows, step_time.kv_tokens)
        for step_time in step.info.warm_up
    }
    assert (32, 0, 32) in shapes
    assert {(0, rows, 17 * rows) for rows in (1, 2, 4, 8)} <= shapes
    assert all(step_time.seconds > 0 for step_time in step.info.warm_up)
    curve = GenerationServiceCurve(step.info.warm_up)
    warm_up = curve.previous()
    assert warm_up is not None
    assert (warm_up.epoch, warm_up.sums[0]) == (0, len(step.info.warm_up))
    assert curve.sums() == GenerationSums(1, (0.0,) * 15)


def test_a_slow_device_times_only_what_there_is_time_for(folder: Path) -> None:
    step = open_step(folder, SMALL, "tiny")
    clock = count(step=1.5)
    timed = timed_steps(step._decoder, step.info.kv, 256, 64, clock=lambda: next(clock))
    assert len(timed) == 1
