"""Each rank reads and holds only its part of the weights."""

import json
from contextlib import ExitStack
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig

from penstock_runtime.engine.continuous.steps.options import Compute, StepOptions
from penstock_runtime.engine.model import ModelLoadFailed
from penstock_runtime.engine.placement import RankSeat
from penstock_runtime.models.decoders.load import stop_ids
from penstock_runtime.models.decoders.ranks.layout import FAMILIES, rule_of
from penstock_runtime.models.decoders.ranks.modules import load_shard
from penstock_runtime.models.decoders.ranks.open import rank_options
from penstock_runtime.models.weights import WeightFiles
from tests.unit.runtime.models.decoders.ranks.group_of_ranks import save_divisible
from tests.unit.runtime.models.decoders.tiny_models import KNOWN

auto: Any = AutoModelForCausalLM
CPU = torch.device("cpu")


@dataclass
class Group:
    """The seat of a rank, of which no collective is called."""

    seat: RankSeat


def shard(folder: Path, rank: int, tensor: int = 4, stages: int = 1) -> Any:
    group: Any = Group(RankSeat(rank, tensor, stages, folder))
    config = AutoConfig.from_pretrained(folder)
    return load_shard(folder, config, torch.float32, CPU, group)


def own_name(name: str) -> str:
    """Return the name of a parameter in the original model."""
    return name.replace("._embedding.", ".")


@pytest.mark.parametrize("family", KNOWN)
def test_the_shards_together_are_the_model_and_no_rank_has_more(
    family: str, tmp_path: Path
) -> None:
    folder = save_divisible(family, tmp_path)
    whole = auto.from_pretrained(folder, dtype=torch.float32)
    shards = [shard(folder, rank) for rank in range(4)]
    family_rules = FAMILIES[whole.config.model_type]
    for name, parameter in whole.named_parameters():
        parts = [
            next(p for own, p in part.named_parameters() if own_name(own) == name)
            for part in shards
        ]
        rule = rule_of(family_rules, name.rpartition(".")[0])
        if rule is None:
            assert all(torch.equal(part, parameter) for part in parts), name
        elif parts[0].shape != parameter.shape:
            assert sum(part.numel() for part in parts) == parameter.numel(), name
            assert sorted(torch.cat([part.flatten() for part in parts]).tolist()) == sorted(
                parameter.flatten().tolist()
            ), name
        else:  # the bias of a module whose outputs are summed
            assert torch.equal(parts[0], parameter), name
            assert not any(part.any() for part in parts[1:]), name
    for part in shards:
        assert not any(parameter.is_meta for parameter in part.parameters())


def test_checkpoints_in_several_files_and_without_a_prefix_are_read(tmp_path: Path) -> None:
    folder = save_divisible("gpt2", tmp_path)
    model = auto.from_pretrained(folder, dtype=torch.float32)
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="40KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 1
    split = shard(folder, 1, 2)
    assert torch.equal(split.transformer.wpe.weight, model.transformer.wpe.weight)
    with ExitStack() as files:
        checkpoint = WeightFiles(folder, "transformer", files)
        assert checkpoint.slice_of("transformer.h.0.mlp.c_fc.weight") is not None
        assert checkpoint.slice_of("transformer.absent") is None


def test_a_shard_has_the_stop_ids_of_the_whole_model(tmp_path: Path) -> None:
    folder = save_divisible("llama", tmp_path)
    written: Any = GenerationConfig
    written(eos_token_id=[3, 5]).save_pretrained(folder)
    assert stop_ids(shard(folder, 1)) == (3, 5)
    (folder / "generation_config.json").unlink()
    assert stop_ids(shard(folder, 1)) == ()


def test_a_checkpoint_of_another_shape_is_refused_with_both(tmp_path: Path) -> None:
    folder = save_divisible("llama", tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 256}))
    with pytest.raises(
        ModelLoadFailed, match=r"embed_tokens.weight has shape \[128, 32\]: .* \[256, 32\]"
    ):
        shard(folder, 0)


def test_missing_weights_are_refused_with_the_file(tmp_path: Path) -> None:
    folder = save_divisible("llama", tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelLoadFailed, match="cannot be read"):
        shard(folder, 0)


@pytest.mark.parametrize("family", KNOWN)
def test_the_stages_together_are_the_model_and_only_tied_embeddings_are_on_two(
    family: str, tmp_path: Path
) -> None:
    folder = save_divisible(family, tmp_path, layers=4)
    whole = auto.from_pretrained(folder, dtype=torch.float32)
    stages = [dict(shard(folder, rank, 1, 3).named_parameters()) for rank in range(3)]
    embedding, tied = whole.get_input_embeddings().weight, whole.config.tie_word_embeddings
    for name, parameter in whole.named_parameters():
        owners = [stage[name] for stage in stages if name in stage]
        assert len(owners) == 1, name
        assert torch.equal(owners[0], parameter), name
    head = stages[0].get("lm_head.weight")
    assert head is not None
    assert torch.equal(head, embedding) == tied
    assert [
        sum(".input_layernorm" in name or ".ln_1." in name for name in stage) > 0
        for stage in stages
    ] == [True] * 3


def test_a_rank_has_its_share_of_the_pods_memory() -> None:
    options = StepOptions(cache_bytes=100, host_cache_bytes=40, tensor_parallel=4)
    own = rank_options(options, CPU, Fraction(1, 4))
    assert (own.cache_bytes, own.host_cache_bytes, own.compute) == (25, 10, Compute.TORCH)
    assert rank_options(StepOptions(tensor_parallel=4), CPU, Fraction(1, 4)).cache_bytes is None


def test_openvino_is_refused() -> None:
    with pytest.raises(ModelLoadFailed, match="OpenVINO runs in one rank"):
        rank_options(StepOptions(compute=Compute.OPENVINO, tensor_parallel=2), CPU, Fraction(1, 2))
