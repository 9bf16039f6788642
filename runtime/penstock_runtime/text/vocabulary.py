"""The bytes of every token: what makes incremental detokenising exact, UTF-8 safe and O(1) a token.

A character may be spread over several tokens, so a token has bytes rather than text. Byte-level BPE
(GPT-2, Llama 3, Qwen) spells a byte as one printable character; SentencePiece (Llama 2, Gemma, Mistral)
spells a space as U+2581 and a byte that it has no piece for as `<0xAB>`. There
added tokens are spelt as all others (Gemma keeps its runs of spaces so); elsewhere they stand for themselves.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer as Backend

_BYTE_PIECE = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")
_SPACE = "\u2581"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What every token id stands for; ids past the end stand for nothing (padded embeddings)."""

    token_bytes: tuple[bytes, ...]
    special: frozenset[int]
    """Control tokens, left out of a text unless its client asks for them."""

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of `token`; none for an id outside the vocabulary."""
        return self.token_bytes[token] if 0 <= token < len(self.token_bytes) else b""

    def __len__(self) -> int:
        return len(self.token_bytes)


def read_vocabulary(backend: Backend) -> Vocabulary:
    """Return the vocabulary of a tokenizer, by the kind of decoder that it declares."""
    spec: dict[str, Any] = json.loads(backend.to_str())
    added = {one["id"]: one for one in spec.get("added_tokens", [])}
    pieces = backend.get_vocab(with_added_tokens=True)
    spell = _speller(spec.get("decoder") or {})
    size = max(pieces.values(), default=-1) + 1
    found = [b""] * size
    for piece, token in pieces.items():
        plain = token in added and spell is not _sentence_piece
        found[token] = piece.encode() if plain else spell(piece)
    special = frozenset(token for token, one in added.items() if one.get("special"))
    return Vocabulary(tuple(found), special)


def _speller(decoder: dict[str, Any]) -> Any:
    kinds = {decoder.get("type")} | {one.get("type") for one in decoder.get("decoders", [])}
    if "ByteLevel" in kinds:
        return _byte_level
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        return _sentence_piece
    if "WordPiece" in kinds:
        return _word_piece
    return str.encode


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's printable spelling of the 256 bytes (`bytes_to_unicode` of its encoder.py)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    spelled = {chr(byte): byte for byte in plain}
    return spelled | {chr(256 + place): byte for place, byte in enumerate(rest)}


_ALPHABET = byte_alphabet()


def _byte_level(piece: str) -> bytes:
    return b"".join(bytes([_ALPHABET[one]]) if one in _ALPHABET else one.encode() for one in piece)


def _sentence_piece(piece: str) -> bytes:
    byte = _BYTE_PIECE.match(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()


def _word_piece(piece: str) -> bytes:
    return piece[2:].encode() if piece.startswith("##") else b" " + piece.encode()
