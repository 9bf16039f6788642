"""What a Hugging Face directory says of a text encoder. JSON only: no torch, so the HTTP side reads it too.

Of sentence-transformers' own files three are understood: the module list, the pooling and the length bound.
Where there is no module list an embedding is the mean over tokens, scaled to length 1.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock_runtime.engine.model import ModelLoadFailed

IDS, MASK = "input_ids", "attention_mask"
"""The tensors of a text encoder, by transformers' own names."""
_UNBOUNDED = 10**6
"""Tokenizers write "no bound" as a number near 10^30."""
_DEFAULT_MAX_TOKENS = 512


class Pooling(StrEnum):
    """How tokens become one vector."""

    MEAN = "mean"
    FIRST = "cls"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class EncoderDirectory:
    """One directory, read and judged."""

    folder: Path
    max_tokens: int
    """Of one text, special tokens included."""
    vocabulary: int
    pooling: Pooling
    normalize: bool
    """Scale embeddings to length 1."""
    labels: tuple[str, ...]
    """Of a classifier, by index."""


def read_directory(folder: Path) -> EncoderDirectory:
    """Return what `folder` says.

    Raises:
        ModelLoadFailed: a file is missing or broken, or asks for what is not served here.
    """
    if not folder.is_dir():
        raise ModelLoadFailed(
            f"there is no directory '{folder}': correct the path in spec.model.source,"
            " or put the model there"
        )
    if not (folder / "tokenizer.json").is_file():
        raise ModelLoadFailed(
            f"directory '{folder}' has no tokenizer.json: save it with a fast tokenizer"
            " (AutoTokenizer.from_pretrained(...).save_pretrained(...))"
        )
    config = _json(folder, "config.json")
    pooling, normalize = _pooling(folder)
    labels = config.get("id2label") or {}
    return EncoderDirectory(
        folder=folder,
        max_tokens=_max_tokens(folder, config),
        vocabulary=int(config.get("vocab_size") or 0),
        pooling=pooling,
        normalize=normalize,
        labels=tuple(str(labels[key]) for key in sorted(labels, key=int)),
    )


def _max_tokens(folder: Path, config: dict[str, Any]) -> int:
    """Return the least of what model, tokenizer and sentence-transformers say."""
    positions = int(config.get("max_position_embeddings") or _DEFAULT_MAX_TOKENS)
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        positions -= (
            int(config.get("pad_token_id") or 0) + 1
        )  # their first position comes after padding's
    said = (
        _json(folder, "tokenizer_config.json", optional=True).get("model_max_length"),
        _json(folder, "sentence_bert_config.json", optional=True).get("max_seq_length"),
    )
    bounds = [int(one) for one in said if one is not None and 0 < one < _UNBOUNDED]
    return min([positions, *bounds])


def _pooling(folder: Path) -> tuple[Pooling, bool]:
    modules = _json(folder, "modules.json", optional=True, kind=list)
    if not modules:
        return Pooling.MEAN, True
    found, normalize = Pooling.MEAN, False
    for module in modules:
        name = str(module.get("type", "")).rpartition(".")[2]
        match name:
            case "Transformer":
                pass
            case "Pooling":
                found = _pooling_mode(folder, str(module.get("path", "")))
            case "Normalize":
                normalize = True
            case _:
                raise ModelLoadFailed(
                    f"directory '{folder}': modules.json asks for '{name}', which is not served:"
                    " use a model of Transformer, Pooling and Normalize"
                )
    return found, normalize


def _pooling_mode(folder: Path, path: str) -> Pooling:
    config = _json(folder, f"{path}/config.json")
    modes = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    known = {
        "pooling_mode_mean_tokens": Pooling.MEAN,
        "pooling_mode_cls_token": Pooling.FIRST,
        "pooling_mode_max_tokens": Pooling.MAX,
    }
    if len(modes) != 1 or modes[0] not in known:
        raise ModelLoadFailed(
            f"directory '{folder}': {path}/config.json pools by {', '.join(modes) or 'nothing'}:"
            f" use one of {', '.join(known)}"
        )
    return known[modes[0]]


def _json(folder: Path, name: str, *, optional: bool = False, kind: type = dict) -> Any:
    file = folder / name
    if optional and not file.is_file():
        return kind()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadFailed(
            f"directory '{folder}': {name} cannot be read ({error}): copy the whole model"
        ) from error
    if not isinstance(found, kind):
        raise ModelLoadFailed(f"directory '{folder}': {name} holds no {kind.__name__}")
    return found
