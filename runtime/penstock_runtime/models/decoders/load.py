"""Loads a transformers model from a local directory to its device; rejects unsupported models by name."""

import logging
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel
from transformers.quantizers.auto import AutoHfQuantizer
from transformers.utils import logging as transformers_logging

from penstock_runtime.engine.continuous.sampling_params import SamplingDefaults
from penstock_runtime.engine.model import ModelLoadFailed, describe
from penstock_runtime.models.weights import reject_quantized

SAMPLING_RANGES: Final[dict[str, tuple[float, float]]] = {
    "temperature": (0.0, 100),
    "top_p": (0.0, 1),
    "top_k": (-1, 2**31),
    "min_p": (0.0, 1),
    "repetition_penalty": (0.01, 10),
}
"""Those of requests."""
_LAYER_TYPES = {"full_attention", "sliding_attention"}
_log = logging.getLogger(__name__)


def load_model(
    folder: Path, config: PreTrainedConfig, dtype: torch.dtype, device: torch.device
) -> PreTrainedModel:
    """Return the causal language model in `folder`, in inference mode with eager attention.

    Raises:
        ModelLoadFailed: a weight is missing, has a scale that transformers does not read, or does not match `config`.
    """
    quiet: Any = transformers_logging
    auto: Any = AutoModelForCausalLM
    quiet.disable_progress_bar()
    try:
        reject_quantized(folder, config, AutoHfQuantizer.supports_quant_method)
        model, report = auto.from_pretrained(
            folder,
            config=config,
            dtype=dtype,
            attn_implementation="eager",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
        )
    except ModelLoadFailed:
        raise
    except Exception as error:  # transformers passes on any error of its loaders
        raise ModelLoadFailed(
            f"{folder} does not load as a causal language model: {describe(error)}"
        ) from error
    missing = sorted(report["missing_keys"])
    if missing:
        raise ModelLoadFailed(
            f"{folder} has no weights for {', '.join(missing[:3])} ({len(missing)} in all): use a complete checkpoint of a"
            " causal language model"
        )
    loaded: PreTrainedModel = model.to(device).eval()
    return loaded


def read_config(folder: Path) -> PreTrainedConfig:
    """Return the config in `folder`.

    Raises:
        ModelLoadFailed: there is no config, or its model is not supported for generation.
    """
    if not (folder / "config.json").is_file():
        raise ModelLoadFailed(
            f"{folder / 'config.json'} is missing: use a folder written by transformers' save_pretrained"
        )
    try:
        config: PreTrainedConfig = AutoConfig.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False
        )
    except Exception as error:  # as above
        raise ModelLoadFailed(
            f"{folder / 'config.json'} cannot be read: {describe(error)}"
        ) from error
    reject_other_layers(config)
    return config


def reject_other_layers(config: PreTrainedConfig) -> None:
    """Raise ModelLoadFailed if a layer has state other than the keys and values of full or sliding-window attention."""
    if config.is_encoder_decoder or config.get_text_config().is_encoder_decoder:
        raise ModelLoadFailed(
            f"model type '{config.model_type}' is an encoder-decoder: generation serves decoder-only models"
        )
    others = set(getattr(config.get_text_config(), "layer_types", None) or ()) - _LAYER_TYPES
    if others:
        raise ModelLoadFailed(
            f"layer type '{min(others)}' of model type '{config.model_type}' is not supported: only"
            " full_attention and sliding_attention have a paged cache"
        )


def stop_ids(model: PreTrainedModel) -> tuple[int, ...]:
    """Return the EOS token ids of generation_config.json, or else of config.json."""
    for config in (model.generation_config, model.config):
        ids = getattr(config, "eos_token_id", None)
        if ids is not None:
            return tuple(ids) if isinstance(ids, list) else (int(ids),)
    return ()


def sampling_defaults(model: PreTrainedModel) -> SamplingDefaults:
    """Return the sampling parameters of generation_config.json; one that a request could not have is ignored with a warning."""
    valid: dict[str, Any] = {}
    for name, (low, high) in SAMPLING_RANGES.items():
        given = getattr(model.generation_config, name, None)
        if given is None:
            continue
        if type(given) in (int, type(low)) and low <= given <= high:
            valid[name] = given
        else:
            _log.warning("%s of generation_config.json is ignored: it must be from %s to %s, got %r", name, low, high, given)  # fmt: skip
    return SamplingDefaults(**valid)
