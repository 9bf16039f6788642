"""Small random models of each family, as transformers saves them."""

import copy
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    LlamaConfig,
    MistralConfig,
    Phi3Config,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.utils import logging

quiet: Any = logging
auto: Any = AutoModelForCausalLM

VOCABULARY = 128
_COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
}
_KNOWN: dict[str, PreTrainedConfig] = {
    "llama": LlamaConfig(**_COMMON),
    "mistral": MistralConfig(**_COMMON, sliding_window=12),
    "qwen2": Qwen2Config(**_COMMON),
    "qwen3": Qwen3Config(**_COMMON, head_dim=16),
    "gemma": GemmaConfig(**_COMMON, head_dim=8),
    "gemma2": Gemma2Config(**_COMMON, head_dim=8, sliding_window=12),
    "gemma3": Gemma3TextConfig(**_COMMON, head_dim=8, sliding_window=12),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=None,
    ),
}
_GENERIC: dict[str, PreTrainedConfig] = {
    "phi3": Phi3Config(
        **_COMMON,
        original_max_position_embeddings=64,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10_000.0,
            "short_factor": [1.0, 1.1, 1.3, 1.6],
            "long_factor": [1.5, 3.0, 6.0, 12.0],
        },
    )
}
"""Up to 64 positions are rotated by the short factors, up to 256 by the long."""
KNOWN = tuple(_KNOWN)
"""The families that are taken apart."""
GENERIC = tuple(_GENERIC)


def config_of(family: str) -> PreTrainedConfig:
    """Return a config of its own: transformers writes the type of a model into the config that it is made from."""
    return copy.deepcopy((_KNOWN | _GENERIC)[family])


def save(family: str, folder: Path, seed: int = 0) -> Path:
    """Write a random model of `family` into `folder`."""
    quiet.disable_progress_bar()
    torch.manual_seed(seed)
    auto.from_config(config_of(family)).save_pretrained(folder)
    return folder
