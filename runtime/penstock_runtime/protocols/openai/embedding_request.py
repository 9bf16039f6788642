"""One body of `POST /v1/embeddings` (OpenAI API reference, "Create embeddings"), judged.

`input` is a text, a list of texts, a list of token ids, or a list of those. Beside OpenAI's own fields there
are `truncate_prompt_tokens` (as vLLM: -1 cuts at what the model takes), `priority` and `timeout` (seconds).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from penstock_runtime.errors import BadInput, UnknownModel, shown
from penstock_runtime.serving.tokenizer_pool import Ids

MAX_INPUTS = 2048
"""As OpenAI's own bound."""


@dataclass(frozen=True, slots=True)
class EmbeddingCall:
    """A valid call; either texts or token ids."""

    texts: Sequence[str]
    ids: Sequence[Ids]
    base64: bool
    cut: bool
    priority: int
    timeout_seconds: float | None


def parse(wire: Any, model: str, width: int) -> EmbeddingCall:
    """Return the call that `wire` spells, for the model called `model` with embeddings of `width`.

    Raises:
        BadInput: with the field.
        UnknownModel: it asks for another model.
    """
    if not isinstance(wire, dict):
        raise BadInput("the body must be a JSON object with `input`", field="body")
    asked = wire.get("model")
    if asked is not None and not isinstance(asked, str):
        raise BadInput(
            f"`model` must be a text, got {shown(asked)}", field="model", code="invalid_type"
        )
    if asked not in (None, model):
        raise UnknownModel(
            f"model {shown(asked, 140)} is not served here: this pod serves {model!r}",
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
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not listed:
        raise BadInput(
            "`input` must be a text, a list of texts, or token ids, and not empty", field="input"
        )
    if all(type(one) is int for one in listed):
        return (), [_ids(listed, "input")]
    if len(listed) > MAX_INPUTS:
        raise BadInput(
            f"`input` has {len(listed)} entries: send at most {MAX_INPUTS}", field="input"
        )
    if all(type(one) is str for one in listed):
        empty = next((at for at, one in enumerate(listed) if not one), None)
        if empty is not None:
            where = f"input[{empty}]"
            raise BadInput(f"`{where}` is an empty text: leave it out", field=where)
        return listed, ()
    if all(type(one) is list for one in listed):
        return (), [_ids(one, f"input[{at}]") for at, one in enumerate(listed)]
    raise BadInput("`input` mixes kinds: send texts, or lists of token ids", field="input")


def _ids(listed: list[Any], field: str) -> Ids:
    if not listed or any(type(one) is not int or not 0 <= one < 2**31 for one in listed):
        raise BadInput(f"`{field}` must hold token ids, whole numbers from 0", field=field)
    return np.array(listed, np.int64)


def _one_of(wire: Mapping[str, Any], field: str, known: Sequence[Any], default: Any) -> Any:
    value = wire.get(field, default)
    if not any(type(value) is type(one) and value == one for one in known):
        words = ", ".join(str(one) for one in known if one is not None)
        raise BadInput(f"`{field}` must be {words}, got {shown(value)}", field=field)
    return value


def _check_dimensions(wire: Mapping[str, Any], width: int) -> None:
    value = wire.get("dimensions")
    if value is not None and (type(value) is not int or value != width):
        raise BadInput(
            f"`dimensions` {shown(value, 40)} is not what this model gives: leave it out, or send {width}",
            field="dimensions",
        )


def _priority(wire: Mapping[str, Any]) -> int:
    value = wire.get("priority", 0)
    if type(value) is not int or not 0 <= value < 2**63:
        raise BadInput(
            f"`priority` must be a whole number, 0 (unset) or 1 (highest) and up, got {shown(value)}",
            field="priority",
        )
    return value


def _timeout(wire: Mapping[str, Any]) -> float | None:
    value = wire.get("timeout")
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < 1e9:
        raise BadInput(f"`timeout` must be seconds above 0, got {shown(value)}", field="timeout")
    return float(value)
