"""`WeightFiles`: the safetensors files of a model, of which slices are read; `reject_quantized`: rejects those with scales."""

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import safe_open
from transformers import PreTrainedConfig

from penstock_runtime.engine.model import ModelLoadFailed, describe

_REMEDY = "use a checkpoint that is not quantized"


class WeightFiles:
    """The tensors of safetensors files, of which slices are read."""

    def __init__(self, folder: Path, prefix: str, opened: ExitStack) -> None:
        """`prefix` is that of the base model, which some checkpoints omit; `opened` closes the files.

        Raises:
            ModelLoadFailed: a file is missing or invalid.
        """
        self._prefix = f"{prefix}."
        self._files: dict[str, Any] = {}
        try:
            for path in weight_files(folder):
                file = opened.enter_context(safe_open(path, framework="pt"))
                self._files.update(dict.fromkeys(file.keys(), file))
        except Exception as error:  # safetensors raises errors of its own
            raise ModelLoadFailed(
                f"the weights in {folder} cannot be read: {describe(error)}"
            ) from error

    def slice_of(self, name: str) -> Any | None:
        """Return the safetensors slice of a parameter; None: the checkpoint does not contain it."""
        for key in (name, name.removeprefix(self._prefix)):
            if key in self._files:
                return self._files[key].get_slice(key)
        return None


def weight_files(folder: Path) -> list[Path]:
    """Return the files that transformers loads; without an index the only one, which may be missing."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole]
    return [
        folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))
    ]


def reject_quantized(
    folder: Path, config: PreTrainedConfig, is_read: Callable[[Any], bool] = lambda _: False
) -> None:
    """Check that no scales of quantized weights are ignored; `is_read`: the loader reads those of a `quantization_config`.

    Raises:
        ModelLoadFailed: the config has another `quantization_config`, or it has none and a weight an 8-bit type.
    """
    configs = (config, config.get_text_config(decoder=True))
    quantization = [getattr(each, "quantization_config", None) for each in configs]
    given = next(filter(None, quantization), None)
    if given is None:
        _reject_scaled_types(folder)
    elif not is_read(given):
        raise ModelLoadFailed(
            f"{folder / 'config.json'} has a quantization_config with quant_method {given.get('quant_method')!r}, which"
            f" is not supported here: {_REMEDY}"
        )


def _reject_scaled_types(folder: Path) -> None:
    for path in filter(Path.is_file, weight_files(folder)):
        with safe_open(path, framework="pt") as file:
            for name in sorted(file.keys()):
                stored = file.get_slice(name).get_dtype()
                if stored == "I8" or stored.startswith("F8_"):
                    raise ModelLoadFailed(
                        f"weight {name} in {path} has type {stored}, whose scales are not read: {_REMEDY}"
                    )
