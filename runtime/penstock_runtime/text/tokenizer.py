"""`Tokenizer` of a model directory: text to ids, ids to bytes, messages to a prompt."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from penstock_runtime.text.chat_template import ChatTemplate, TemplateRejected
from penstock_runtime.text.vocabulary import Vocabulary, read_vocabulary

# One thread, because the other cores belong to the engine. The library reads this at every call.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

SPECIAL_NAMES: Final = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token")


class InvalidTokenizer(Exception):
    """The directory has no usable tokenizer; the message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """An immutable tokenizer, read once and shared by all requests."""

    backend: Backend
    vocabulary: Vocabulary
    chat_template: ChatTemplate | None
    tool_template: ChatTemplate | None
    """Template of conversations with tools, where the model has a separate one."""
    special: dict[str, str]
    """Texts of `bos_token`, `eos_token` and so on in the model's configuration."""
    end_ids: frozenset[int]
    """EOS token ids, from the model's configuration."""

    def encode(self, text: str, *, add_special: bool = True) -> list[int]:
        """Return the ids of `text`; `add_special` adds the tokenizer's special tokens around it."""
        ids: list[int] = self.encode_full(text, add_special=add_special).ids
        return ids

    def encode_full(self, text: str, *, add_special: bool) -> Encoding:
        """Return the encoding of `text`, whose length is cheap to read; releases the GIL."""
        return self.backend.encode_batch_fast([text], add_special_tokens=add_special)[0]

    def template(self, *, tools: bool) -> ChatTemplate | None:
        """Return the template of a conversation with or without tools."""
        return (self.tool_template if tools else None) or self.chat_template

    def ids_of(self, texts: Iterable[str]) -> frozenset[int]:
        """Return the ids of those of `texts` that are single tokens."""
        ids = (self.backend.token_to_id(text) for text in texts)
        return frozenset(token for token in ids if token is not None)

    def token_strings(self, ids: Iterable[int]) -> list[str | None]:
        """Return the vocabulary's string of each id."""
        return [self.backend.id_to_token(token) for token in ids]

    def to_json(self) -> str:
        """Return `tokenizer.json` with the additions of the configuration."""
        return str(self.backend.to_str())


def load_tokenizer(folder: Path) -> Tokenizer:
    """Return the tokenizer of the model in `folder`.

    Raises:
        InvalidTokenizer: `tokenizer.json` is missing or broken, or another file is.
    """
    path = folder / "tokenizer.json"
    if not path.is_file():
        raise InvalidTokenizer(
            f"{path} is missing: save the model with its fast tokenizer (save_pretrained)"
        )
    try:
        backend = Backend.from_file(str(path))
    except Exception as error:
        raise InvalidTokenizer(f"{path} cannot be read: {error}") from error
    backend.no_padding()
    backend.no_truncation()
    config = _json(folder / "tokenizer_config.json")
    special = {name: text for name in SPECIAL_NAMES if (text := _text(config.get(name)))}
    return Tokenizer(
        backend,
        read_vocabulary(backend),
        *_templates(folder, config, special),
        special,
        _end_ids(folder, backend, special),
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidTokenizer(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InvalidTokenizer(f"{path} is not a JSON object")
    return content


def _text(value: Any) -> str | None:
    """Return a token's text; tokenizer_config.json has a string, or an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _templates(
    folder: Path, config: dict[str, Any], special: dict[str, str]
) -> tuple[ChatTemplate | None, ChatTemplate | None]:
    """Return the default template and the template for tools, selected by name as in transformers."""
    sources = _template_sources(folder, config)
    try:
        templates = {name: ChatTemplate(text, special) for name, text in sources.items()}
    except TemplateRejected as error:
        raise InvalidTokenizer(str(error)) from error
    return templates.get("default"), templates.get("tool_use")


def _template_sources(folder: Path, config: dict[str, Any]) -> dict[str, str]:
    given = config.get("chat_template")
    listed = given if isinstance(given, list) else [{"name": "default", "template": given}]
    sources = {entry.get("name"): entry.get("template") for entry in listed}
    files = {path.stem: path for path in folder.glob("additional_chat_templates/*.jinja")}
    files["default"] = folder / "chat_template.jinja"
    for name, path in files.items():
        if path.is_file():
            sources[name] = path.read_text(encoding="utf-8")
    names = ("default", "tool_use")
    return {name: text for name in names if isinstance(text := sources.get(name), str)}


def _end_ids(folder: Path, backend: Backend, special: dict[str, str]) -> frozenset[int]:
    """Return the EOS ids of generation_config.json, or else of config.json, and the tokenizer's own."""
    own = backend.token_to_id(special["eos_token"]) if "eos_token" in special else None
    for name in ("generation_config.json", "config.json"):
        given = _json(folder / name).get("eos_token_id")
        if given is not None:
            listed: Sequence[int] = given if isinstance(given, list) else [given]
            return frozenset(listed) | ({own} if own is not None else set())
    return frozenset() if own is None else frozenset({own})
