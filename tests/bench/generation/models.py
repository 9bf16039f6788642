"""The two random-weight Llamas that every peer loads, written once below build/."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import LlamaConfig

auto: Any = transformers.AutoModelForCausalLM
VOCABULARY = 8192


@dataclass(frozen=True)
class LlamaShape:
    """A Llama's sizes."""

    name: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    feed_forward: int


SHAPES = (
    LlamaShape("7M", hidden=256, layers=4, heads=8, kv_heads=4, feed_forward=768),
    LlamaShape("61M", hidden=768, layers=8, heads=12, kv_heads=4, feed_forward=2048),
)


def write(shape: LlamaShape, below: Path) -> Path:
    """Return the folder of the model, written if it is not there."""
    folder = below / f"llama-{shape.name}"
    if (folder / "config.json").exists():
        return folder
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    half = below / f"{folder.name}.part"
    shutil.rmtree(half, ignore_errors=True)
    auto.from_config(config).save_pretrained(half)
    half.rename(folder)
    return folder
