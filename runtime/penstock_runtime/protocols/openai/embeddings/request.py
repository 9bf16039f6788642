"""Parsing of the body of `POST /v1/embeddings` (OpenAI API reference, "Create embeddings").

`input` is a text, a list of texts, a list of token ids, or a list of such lists. In addition to OpenAI's fields there are
`truncate_prompt_tokens` (as in vLLM: -1 cuts at the model's limit), `priority` and `timeout` (seconds).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock_runtime.errors import BadInput, UnknownModel, shown
from penstock_runtime.serving.tokenizer_pool import Ids

MAX_INPUTS = 2048
"""OpenAI's limit."""


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """A valid call with texts or token ids."""

    texts: Sequence[str]
    ids: Sequence[Ids]
    base64: bool
    cut: bool
    priority: int
    timeout_seconds: float | None


def parse(wire: Any, model: str, width: int) -> EmbeddingCall:
    """Return the call in the JSON value `wire`, for the model called `model` with embeddings of `width`.

    Raises:
        BadInput: a field is invalid.
        UnknownModel: it names another model.
    """
    if not isinstance(wire, dict):
        raise BadInput("the body must be a JSON object with `input`", field="body")
    name = wire.get("model")
    if name is not None and not isinstance(name, str):
        raise BadInput(
            f"`model` must be a string, got {shown(name)}", field="model", code="invalid_type"
        )
    if name not in (None, model):
        raise UnknownModel(
            f"model {shown(name, 140)} is not served here: this pod serves {model!r}",
            field="model",
        )
    _check_dimensions(wire, width)
    texts, ids = _input(wire.get("input"))
    return EmbeddingCall(
        texts=texts,
        ids=ids,
        base64=_one_of(wire, "encoding_format", ("float", "base64"), "float") == "base64",
        cut=_one_of(wire, "truncate_prompt_tokens", (None, -1), None) == -1,
        priority=_priority(wire),
        timeout_seconds=_timeout(wire),
    )


def _input(given: Any) -> tuple[Sequence[str], Sequence[Ids]]:
    if given is None:
        raise BadInput(
            "`input` is missing: send a text, a list of texts, or token ids",
            field="input",
            code="missing_required_parameter",
        )
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed:
        raise BadInput(
            "`input` must be a text, a list of texts, or token ids, and not empty", field="input"
        )
    if all(type(entry) is int for entry in listed):
        return (), [_ids(listed, "input")]
    if len(listed) > MAX_INPUTS:
        raise BadInput(
            f"`input` has {len(listed)} entries: send at most {MAX_INPUTS}", field="input"
        )
    if all(type(entry) is str for entry in listed):
        empty = next((at for at, text in enumerate(listed) if not text), None)
        if empty is not None:
            where = f"input[{empty}]"
            raise BadInput(f"`{where}` is an empty text: remove it", field=where)
        return listed, ()
    if all(type(entry) is list for entry in listed):
        return (), [_ids(ids, f"input[{at}]") for at, ids in enumerate(listed)]
    raise BadInput("`input` mixes types: send texts, or lists of token ids", field="input")


def _ids(listed: list[Any], field: str) -> Ids:
    if not listed or any(type(entry) is not int or not 0 <= entry < 2**31 for entry in listed):
        raise BadInput(f"`{field}` must be a list of token ids, integers from 0", field=field)
    return np.array(listed, np.int64)


def _one_of(wire: Mapping[str, Any], field: str, known: Sequence[Any], default: Any) -> Any:
    value = wire.get(field)
    if value is None:
        value = default
    if not any(type(value) is type(option) and value == option for option in known):
        options = " or ".join(str(option) for option in known if option is not None)
        raise BadInput(f"`{field}` must be {options}, got {shown(value)}", field=field)
    return value


def _check_dimensions(wire: Mapping[str, Any], width: int) -> None:
    value = wire.get("dimensions")
    if value is not None and (type(value) is not int or value != width):
        raise BadInput(
            f"`dimensions` must be {width} or left out for this model, got {shown(value, 40)}",
            field="dimensions",
        )


def _priority(wire: Mapping[str, Any]) -> int:
    value = wire.get("priority")
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 2**63:
        raise BadInput(
            f"`priority` must be an integer, 0 (unset) or 1 (highest) and up, got {shown(value)}",
            field="priority",
        )
    return value


def _timeout(wire: Mapping[str, Any]) -> float | None:
    value = wire.get("timeout")
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < 1e9:
        raise BadInput(
            f"`timeout` must be a number of seconds above 0, got {shown(value)}", field="timeout"
        )
    return float(value)
