"""`EncoderDirectory`: the configuration of a text encoder in a Hugging Face directory, read without torch.

Three files of sentence-transformers are supported: the module list, the pooling and the length limit. Without a module
list an embedding is the mean over tokens, scaled to length 1.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from penstock_runtime.engine.model import ModelLoadFailed

IDS, MASK = "input_ids", "attention_mask"
"""Input tensors of a text encoder, named as in transformers."""
_UNBOUNDED = 10**6
"""Value from which a limit is ignored: tokenizers write about 10^30 for "no limit"."""
_DEFAULT_MAX_TOKENS = 512
_JSON_KINDS: Mapping[type, str] = {dict: "object", list: "array"}


class Pooling(StrEnum):
    """Reduction of token vectors to one vector."""

    MEAN = "mean"
    FIRST = "cls"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class EncoderDirectory:
    """Configuration of a text encoder."""

    folder: Path
    max_tokens: int
    """Limit of tokens per text, including special tokens."""
    vocabulary: int
    pooling: Pooling
    normalize: bool
    """Whether embeddings are scaled to length 1."""
    labels: tuple[str, ...]
    """Labels of a classifier, by class index."""


def read_directory(folder: Path) -> EncoderDirectory:
    """Return the configuration in `folder`.

    Raises:
        ModelLoadFailed: a file is missing or broken, or requires an unsupported module.
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
    """Return the minimum of the limits of model, tokenizer and sentence-transformers."""
    positions = int(config.get("max_position_embeddings") or _DEFAULT_MAX_TOKENS)
    if config.get("model_type") in ("roberta", "xlm-roberta", "camembert", "mpnet"):
        # positions start after that of padding
        positions -= int(config.get("pad_token_id") or 0) + 1
    limits = (
        _json(folder, "tokenizer_config.json", optional=True).get("model_max_length"),
        _json(folder, "sentence_bert_config.json", optional=True).get("max_seq_length"),
    )
    bounds = [int(limit) for limit in limits if limit is not None and 0 < limit < _UNBOUNDED]
    return min([positions, *bounds])


def _pooling(folder: Path) -> tuple[Pooling, bool]:
    modules = _json(folder, "modules.json", optional=True, kind=list)
    if not modules:
        return Pooling.MEAN, True
    pooling, normalize = Pooling.MEAN, False
    for module in modules:
        name = str(module.get("type", "")).rpartition(".")[2]
        match name:
            case "Transformer":
                pass
            case "Pooling":
                pooling = _pooling_mode(folder, str(module.get("path", "")))
            case "Normalize":
                normalize = True
            case _:
                raise ModelLoadFailed(
                    f"directory '{folder}': modules.json requires '{name}', which is not supported:"
                    " use a model of Transformer, Pooling and Normalize"
                )
    return pooling, normalize


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
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelLoadFailed(
            f"directory '{folder}': {name} cannot be read ({error}): copy the whole model"
        ) from error
    if not isinstance(content, kind):
        raise ModelLoadFailed(f"directory '{folder}': {name} is not a JSON {_JSON_KINDS[kind]}")
    return content
