"""The error of a requested 16-bit type of a generative model: measured once, reported, and stored."""

import json
import shutil
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from penstock_api.pod_contract import ModelBackendState
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.models.decoders import load, precision
from penstock_runtime.models.decoders.load import read_config
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.precision import ExpectedScores, expected_scores, token_errors
from penstock_runtime.models.decoders.torch_decoders.transformers_decoder import Decoder
from tests.unit.runtime.models.decoders.tiny_models import save

SMALL = StepOptions(Compute.TORCH, DType.BFLOAT16, cache_bytes=1 << 18, block_tokens=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llama", tmp_path_factory.mktemp("llama"))


def compared(folder: Path, *caches: Path, options: StepOptions = SMALL) -> ModelBackendState | None:
    return open_step(folder, replace(options, folders=caches), "tiny").info.model_backend


@pytest.mark.parametrize("dtype", [DType.BFLOAT16, DType.FLOAT16])
def test_a_requested_type_is_compared_once_and_the_errors_are_stored(
    folder: Path, tmp_path: Path, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = replace(SMALL, dtype=dtype)
    first = compared(folder, tmp_path / "shared", tmp_path / "private", options=options)
    assert first is not None
    (errors,) = first.candidates
    assert (first.name, errors.name, first.cached) == ("Torch", "Torch", False)
    assert errors.greatest_error is not None
    assert errors.mean_error is not None
    assert errors.equal_token_share is not None
    assert 0 < errors.mean_error < errors.greatest_error < 2
    assert 0.5 < errors.equal_token_share <= 1
    assert [file.parent.name for file in tmp_path.rglob("*.json")] == ["shared"]

    def load_again(*_: object) -> list[ExpectedScores]:
        raise AssertionError("the float32 model is loaded again")

    monkeypatch.setattr(precision, "expected_scores", load_again)
    second = compared(folder, tmp_path / "shared", tmp_path / "private", options=options)
    assert second == first.model_copy(update={"cached": True})
    with pytest.raises(AssertionError, match="loaded again"):
        compared(folder, tmp_path / "other", options=options)


def test_a_coarser_type_has_greater_errors(folder: Path) -> None:
    means = []
    for dtype in (DType.BFLOAT16, DType.FLOAT16):
        state = compared(folder, options=replace(SMALL, dtype=dtype))
        assert state is not None
        means.append(state.candidates[0].mean_error or 0.0)
    assert means[0] > 2 * means[1] > 0


def test_a_type_that_is_not_requested_or_not_narrower_is_not_compared(folder: Path) -> None:
    for dtype in (DType.AUTO, DType.FLOAT32):
        assert compared(folder, options=replace(SMALL, dtype=dtype)) is None


def test_without_memory_for_float32_there_is_no_comparison(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(precision, "free_bytes", lambda _: 1000)
    assert compared(folder) is None
    assert "is not compared with float32" in caplog.text


def test_weights_that_are_not_loaded_need_no_memory(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copied"))
    weights = copied / "model.safetensors"
    shutil.copy(weights, copied / "consolidated.safetensors")
    monkeypatch.setattr(precision, "free_bytes", lambda _: int(1.5 * weights.stat().st_size))
    assert compared(copied) is not None


def test_broken_errors_are_measured_again(folder: Path, tmp_path: Path) -> None:
    compared(folder, tmp_path)
    (file,) = tmp_path.glob("*.json")
    for broken in ("", "[]", json.dumps({"greatest": 1.0})):
        file.write_text(broken)
        state = compared(folder, tmp_path)
        assert state is not None
        assert not state.cached


def test_no_folder_that_can_be_written_costs_the_next_load_its_time(
    folder: Path, tmp_path: Path
) -> None:
    blocked, private = tmp_path / "file", tmp_path / "private"
    blocked.write_text("not a folder")
    assert compared(folder, blocked, private) is not None
    assert len(list(private.glob("*.json"))) == 1
    assert compared(folder, blocked) is not None


def test_an_output_that_is_not_finite_fails_the_load(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = precision.token_errors
    monkeypatch.setattr(
        precision, "token_errors", lambda *given: replace(exact(*given), greatest=float("nan"))
    )
    with pytest.raises(ModelLoadFailed, match="Torch in bfloat16 are not finite: set spec"):  # fmt: skip
        compared(folder)


def test_no_prompt_starts_after_the_time_limit_but_the_first(folder: Path) -> None:
    ticks = iter(range(0, 1000, 100))
    config = read_config(folder)
    scores = expected_scores(folder, config, torch.device("cpu"), lambda: float(next(ticks)))
    assert len(scores) == 1


def test_the_device_has_the_memory_of_the_float32_model_again_before_the_served_one_loads(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = list[weakref.ref[torch.nn.Module]]()
    alive = list[torch.nn.Module | None]()
    load_model = load.load_model

    def kept(*given: Any) -> PreTrainedModel:
        model: PreTrainedModel = load_model(*given)
        loaded.append(weakref.ref(model))
        return model

    monkeypatch.setattr(load, "load_model", kept)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: alive.append(loaded[-1]()))
    expected_scores(folder, read_config(folder), torch.device("cpu"))
    assert alive == [None]


def test_errors_are_those_of_known_logits(folder: Path) -> None:
    step = open_step(folder, replace(SMALL, dtype=DType.FLOAT32), "tiny")
    config = read_config(folder)
    expected = expected_scores(folder, config, torch.device("cpu"))
    decoder: Decoder = step._decoder
    same = token_errors(decoder, step.info.kv, step.info.max_model_len, expected)
    assert same.greatest < 1e-3
    assert same.equal_share == 1
    off = [replace(each, logprobs=each.logprobs + 0.5) for each in expected]
    shifted = token_errors(decoder, step.info.kv, step.info.max_model_len, off)
    assert shifted.mean == pytest.approx(0.5, abs=1e-3)
    wrong = [replace(each, tokens=each.tokens.flip(1)) for each in expected]
    assert token_errors(decoder, step.info.kv, step.info.max_model_len, wrong).equal_share == 0
    short = token_errors(decoder, step.info.kv, 3, expected)
    assert short.greatest <= same.greatest
