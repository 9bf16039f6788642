"""The random-weight Llamas that every peer loads, written once below build/."""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

CPU = torch.device("cpu")
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

DEVICE_SHAPES = {
    "1B": LlamaShape("1B", hidden=2048, layers=16, heads=32, kv_heads=8, feed_forward=8192),
    "tiny": LlamaShape("tiny", hidden=64, layers=2, heads=4, kv_heads=2, feed_forward=128),
}
"""Shapes for a GPU by name; the tiny one tests the bench on a CPU in seconds."""


def write(
    shape: LlamaShape,
    below: Path,
    dtype: torch.dtype = torch.float32,
    device: torch.device = CPU,
) -> Path:
    """Return the folder of the model, written if it is not there; `device` draws the weights."""
    folder = below / f"llama-{shape.name}"
    if (folder / "config.json").exists():
        return folder
    from transformers import AutoModelForCausalLM, LlamaConfig  # seconds, not needed to find it

    auto: Any = AutoModelForCausalLM
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
    with device:
        model = auto.from_config(config, dtype=dtype)
    model.save_pretrained(half)
    half.rename(folder)
    return folder
