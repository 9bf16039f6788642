"""`WeightFiles`: the safetensors files of a model, of which slices are read."""

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from safetensors import safe_open

from penstock_runtime.engine.model import ModelLoadFailed, describe


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
            for path in _weight_files(folder):
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


def _weight_files(folder: Path) -> list[Path]:
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file() or not index.is_file():
        return [whole]
    return [
        folder / name for name in sorted(set(json.loads(index.read_text())["weight_map"].values()))
    ]
