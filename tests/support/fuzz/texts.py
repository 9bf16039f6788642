"""Invalid JSON for fuzzers: values of the wrong type, and damaged bytes."""

import json
from collections.abc import Callable
from random import Random
from typing import Any, Final

MARK: Final = "\x01"
"""Placeholder that `dumped` replaces with the text of one of `VALUES`."""
_MARK_TEXT: Final = json.dumps(MARK).encode()

VALUES: Final = [
    *(b"null", b"true", b"false", b"0", b"1", b"-1", b"2", b"-0", b"-0.0", b"1.0", b"4.0", b"0.5", b"1e0", b"1e2"),
    *(b"1e300", b"-1e300", b"1e999", b"1e-999", b"NaN", b"Infinity", b"-Infinity", b"2147483648", b"9007199254740993"),
    *(b"9223372036854775807", b"9223372036854775808", b"-9223372036854775809", b"18446744073709551616", b"1" + b"0" * 400),
    *(b'""', b'"1"', b'"true"', b'"a"', b'"\xc3\xa9"', b'"\\u00e9"', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\u0000"', b'"\xff"'),
    *(b"[]", b"[1]", b"[[]]", b"[null]", b'["1"]', b"[1,[2]]", b"{}", b'{"a":1}', b'{"a":{"a":[1]}}', b'[{}]'),
    *(b'"' + b"a" * 300 + b'"', b"[" + b"1," * 300 + b"1]", b"01", b"+1", b".5", b"1.", b"'a'", b"undefined", b""),
]  # fmt: skip
"""Texts of unexpected values; the last of them are not JSON."""

_TOKENS: Final = [
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u", b"\\ud800", b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf"),
    *(b"NaN", b"-", b"e9", b".", b"0", b"9" * 30, b" ", b"\n", b"//", b"null", b"true", b'"a":', b"\\u0000", b"[[[[", b"\xf0\x9f\x98\x80"),
]  # fmt: skip


def nested(draw: Random) -> bytes:
    """Return a value nested to a depth that some JSON parsers reject and others accept."""
    depth = draw.choice((120, 190, 210, 500, 900, 1000, 1020, 1024, 1030, 3000, 50_000))
    if draw.random() < 0.5:
        return b"[" * depth + b"]" * depth
    return b'{"a":' * depth + b"1" + b"}" * depth


def odd_value(draw: Random) -> bytes:
    """Return the text of a value that is most likely invalid at its position."""
    return nested(draw) if draw.random() < 0.02 else draw.choice(VALUES)


def dumped(tree: Any, draw: Random) -> bytes:
    """Return `tree` as JSON, with an odd value in place of each `MARK`."""
    text = json.dumps(tree, ensure_ascii=draw.random() < 0.8).encode("utf-8", "surrogatepass")
    while _MARK_TEXT in text:
        text = text.replace(_MARK_TEXT, odd_value(draw), 1)
    return text


def spoil(tree: Any, draw: Random) -> Any:
    """Put `MARK` at one position of `tree`, or remove or repeat an element."""
    place = tree
    while True:
        if isinstance(place, dict) and place:
            key: Any = draw.choice(list(place))
        elif isinstance(place, list) and place:
            key = draw.randrange(len(place))
        else:
            return tree
        inside = place[key]
        if not isinstance(inside, dict | list) or not inside or draw.random() < 0.25:
            break
        place = inside
    _spoil_at(place, key, draw)
    return tree


def _spoil_at(place: Any, key: Any, draw: Random) -> None:
    kind = draw.randrange(10)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[draw.choice(("parameters", "id", "outputs", "data", "name", "a", ""))] = MARK
    elif kind == 1:
        place.insert(key, MARK)
    elif kind == 2 and isinstance(place, list):
        place.append(place[key])
    elif kind == 3:
        place[key] = [place[key]]
    else:
        place[key] = MARK


def _flip(body: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(body))
    return body[:at] + bytes((draw.randrange(256),)) + body[at + 1 :]


def _cut(body: bytes, draw: Random) -> bytes:
    return body[: draw.randrange(len(body))]


def _remove(body: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(body))
    return body[:at] + body[at + 1 + int(draw.expovariate(0.2)) :]


def _insert(body: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(body))
    return body[:at] + draw.choice(_TOKENS) + body[at:]


def _repeat(body: bytes, draw: Random) -> bytes:
    at = draw.randrange(len(body))
    end = at + 1 + int(draw.expovariate(0.1))
    return body[:end] + body[at:]


def _swap(body: bytes, draw: Random) -> bytes:
    """Replace the bytes up to the next delimiter with an odd value."""
    at = draw.randrange(len(body))
    end = at
    while end < len(body) and body[end] not in b',:]}"':
        end += 1
    return body[:at] + odd_value(draw) + body[end:]


_DAMAGES: Final[list[Callable[[bytes, Random], bytes]]] = [
    _flip, _cut, _remove, _insert, _insert, _repeat, _swap, _swap,
]  # fmt: skip


def damage(body: bytes, draw: Random) -> bytes:
    """Return `body` with one to three damages."""
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if body:
            body = draw.choice(_DAMAGES)(body, draw)
    return body
