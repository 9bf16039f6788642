"""`Vocabulary`: the bytes of every token, for incremental detokenization that is exact and O(1) per token.

A character may span several tokens, so tokens map to bytes rather than text. Byte-level BPE (GPT-2, Llama 3, Qwen)
writes each byte as one printable character; SentencePiece (Llama 2, Gemma, Mistral) writes a space as U+2581 and a
byte without a piece as `<0xAB>`. SentencePiece writes added tokens the same way (such as the runs of spaces in
Gemma); elsewhere an added token is its own text.
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
    """Bytes of every token id; ids past the end (padded embeddings) have none."""

    token_bytes: tuple[bytes, ...]
    special: frozenset[int]
    """Control tokens, omitted from a text by default."""

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes of `token`, empty for an id outside the vocabulary."""
        return self.token_bytes[token] if 0 <= token < len(self.token_bytes) else b""

    def __len__(self) -> int:
        return len(self.token_bytes)


def read_vocabulary(backend: Backend) -> Vocabulary:
    """Return the vocabulary of a tokenizer, according to its decoder."""
    spec: dict[str, Any] = json.loads(backend.to_str())
    added = {entry["id"]: entry for entry in spec.get("added_tokens", [])}
    pieces = backend.get_vocab(with_added_tokens=True)
    to_bytes = _decoder_of(spec.get("decoder") or {})
    size = max(pieces.values(), default=-1) + 1
    table = [b""] * size
    for piece, token in pieces.items():
        plain = token in added and to_bytes is not _sentence_piece
        table[token] = piece.encode() if plain else to_bytes(piece)
    special = frozenset(token for token, entry in added.items() if entry.get("special"))
    return Vocabulary(tuple(table), special)


def _decoder_of(decoder: dict[str, Any]) -> Any:
    kinds = {decoder.get("type")} | {part.get("type") for part in decoder.get("decoders", [])}
    if "ByteLevel" in kinds:
        return _byte_level
    if kinds & {"Metaspace", "ByteFallback", "Replace"}:
        return _sentence_piece
    if "WordPiece" in kinds:
        return _word_piece
    return str.encode


def byte_alphabet() -> dict[str, int]:
    """Return GPT-2's printable characters for the 256 bytes (`bytes_to_unicode` of its encoder.py)."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = [byte for byte in range(256) if byte not in plain]
    printable = {chr(byte): byte for byte in plain}
    return printable | {chr(256 + place): byte for place, byte in enumerate(rest)}


_ALPHABET = byte_alphabet()


def _byte_level(piece: str) -> bytes:
    return b"".join(
        bytes([_ALPHABET[char]]) if char in _ALPHABET else char.encode() for char in piece
    )


def _sentence_piece(piece: str) -> bytes:
    byte = _BYTE_PIECE.match(piece)
    return bytes([int(byte[1], 16)]) if byte else piece.replace(_SPACE, " ").encode()


def _word_piece(piece: str) -> bytes:
    return piece[2:].encode() if piece.startswith("##") else b" " + piece.encode()
