"""A checkpoint is loaded whole, with what its files say about requests, or refused by the name of what is not read."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from penstock_runtime.engine.continuous.sampling_params import SamplingDefaults
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.load import load_model, read_config
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.ranks.modules import load_shard
from tests.unit.runtime.models.decoders.tiny_models import save

UP = "model.layers.1.mlp.up_proj.weight"
CPU = torch.device("cpu")


def whole(folder: Path) -> PreTrainedModel:
    return load_model(folder, read_config(folder), torch.float32, CPU)


def of_a_rank(folder: Path) -> PreTrainedModel:
    group: Any = SimpleNamespace(seat=RankSeat(0, 2, 1, folder))
    return load_shard(folder, read_config(folder), torch.float32, CPU, group)


Loader = Callable[[Path], PreTrainedModel]
loaders = pytest.mark.parametrize("load", [whole, of_a_rank])


def with_weight(folder: Path, tensor: torch.Tensor | None) -> Path:
    """Replace the weight `UP` of a model, or remove it."""
    tensors = load_file(folder / "model.safetensors")
    del tensors[UP]
    added = {} if tensor is None else {UP: tensor}
    save_file(tensors | added, folder / "model.safetensors", {"format": "pt"})
    return folder


def with_json(folder: Path, name: str, **fields: Any) -> Path:
    path = folder / name
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(before | fields))
    return folder


@loaders
def test_a_missing_weight_is_refused_by_name(load: Loader, tmp_path: Path) -> None:
    with pytest.raises(ModelLoadFailed, match=UP):
        load(with_weight(save("llama", tmp_path), None))


@pytest.mark.parametrize("family", ["gemma", "gpt2"])
def test_a_tied_head_is_no_missing_weight(family: str, tmp_path: Path) -> None:
    folder = save(family, tmp_path)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model: Any = whole(folder)
    assert model.lm_head.weight is model.get_input_embeddings().weight


@loaders
@pytest.mark.parametrize(
    ("dtype", "name"),
    [(torch.float8_e4m3fn, "F8_E4M3"), (torch.float8_e5m2, "F8_E5M2"), (torch.int8, "I8")],
)
def test_a_weight_in_8_bits_is_refused_by_its_type(
    load: Loader, dtype: torch.dtype, name: str, tmp_path: Path
) -> None:
    folder = with_weight(save("llama", tmp_path), torch.ones(64, 32).to(dtype))
    with pytest.raises(ModelLoadFailed, match=rf"{UP} in .*model\.safetensors has type {name}"):
        load(folder)


@pytest.mark.parametrize(
    ("load", "method"), [(whole, "modelopt"), (of_a_rank, "modelopt"), (of_a_rank, "fp8")]
)
def test_a_method_of_quantization_that_is_not_read_is_refused_by_name(
    load: Loader, method: str, tmp_path: Path
) -> None:
    given = {"quant_method": method, "quant_algo": "FP8"}
    folder = with_json(save("llama", tmp_path), "config.json", quantization_config=given)
    with pytest.raises(ModelLoadFailed, match=f"quantization_config with quant_method '{method}'"):
        load(folder)


def test_requests_have_the_sampling_parameters_of_the_model(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"temperature": 0.6, "top_p": 1.5, "top_k": 20, "min_p": True}
    folder = with_json(save("llama", tmp_path), "generation_config.json", **given)
    options = StepOptions(Compute.TORCH, DType.FLOAT32, cache_bytes=1 << 18, block_tokens=8)
    sampling = open_step(folder, options, "tiny").info.sampling
    assert sampling == SamplingDefaults(temperature=0.6, top_k=20)
    assert "top_p of generation_config.json is ignored: it must be from 0.0 to 1, got 1.5" in caplog.text  # fmt: skip
    assert "min_p of generation_config.json is ignored" in caplog.text
