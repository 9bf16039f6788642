"""From a local directory to a transformers model on its device; what cannot be served is refused by name."""

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as transformers_logging

from penstock_runtime.engine.model import ModelLoadFailed, describe

_LAYER_TYPES = {"full_attention", "sliding_attention"}
_HASHED_BYTES = 1 << 20
"""Of each weight file, beside its size: enough to tell two checkpoints apart without reading either whole."""


def load_model(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """Return the causal language model in `folder`, in inference mode, with its own eager attention.

    Raises:
        ModelLoadFailed: its weights are not there, or do not fit `config`.
    """
    quiet: Any = transformers_logging
    quiet.disable_progress_bar()
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation="eager",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        )
    except Exception as error:  # transformers raises whatever its loaders raise
        raise ModelLoadFailed(
            f"{folder} does not load as a causal language model: {describe(error)}"
        ) from error
    loaded: PreTrainedModel = model.to(device).eval()
    return loaded


def read_config(folder: Path) -> PreTrainedConfig:
    """Return the config in `folder`.

    Raises:
        ModelLoadFailed: none is there, or it is of a model that generation does not serve.
    """
    if not (folder / "config.json").is_file():
        raise ModelLoadFailed(
            f"{folder / 'config.json'} is missing: give a folder as transformers' save_pretrained writes it"
        )
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # as above
        raise ModelLoadFailed(f"{folder / 'config.json'} is not read: {describe(error)}") from error
    refuse_other_layers(config)
    return config


def refuse_other_layers(config: PreTrainedConfig) -> None:
    """Raise ModelLoadFailed where a layer keeps a state that is not keys and values of full or sliding windows."""
    if getattr(config, "is_encoder_decoder", False):
        raise ModelLoadFailed(
            f"model type '{config.model_type}' is an encoder-decoder: generation serves decoder-only models"
        )
    others = set(getattr(config, "layer_types", None) or ()) - _LAYER_TYPES
    if others:
        raise ModelLoadFailed(
            f"layer type '{min(others)}' of model type '{config.model_type}' is not served: only"
            " full_attention and sliding_attention have a paged cache"
        )


def stop_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Return the model's own end ids: generation_config.json's, else config.json's."""
    for config in (model.generation_config, model.config):
        found = getattr(config, "eos_token_id", None)
        if found is not None:
            return tuple(found) if isinstance(found, list) else (int(found),)
    return ()


def revision(folder: Path) -> str:
    """Return a name for these weights: a hash of the config and of each weight file's size and beginning."""
    digest = hashlib.sha256(json.dumps(json.loads((folder / "config.json").read_text())).encode())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}".encode())
        with file.open("rb") as opened:
            digest.update(opened.read(_HASHED_BYTES))
    return digest.hexdigest()[:16]
