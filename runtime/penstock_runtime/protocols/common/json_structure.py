"""What decoding a large JSON text costs, counted in pieces before it is decoded: a decoder holds the GIL to its end.

Long flat lists of numbers are set apart: they are decoded in pieces (`Numbers`), and cost nothing at once.
"""

import asyncio
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.errors import BadInput

Told = ParamSpec("Told")
Found = TypeVar("Found")

SMALL_BYTES: Final = 2**17
"""A text of that length is decoded in 50 ms, whatever it holds."""
BUDGET_NANOSECONDS: Final = 50_000_000
_PIECE_BYTES: Final = 2**18
_MIN_LIST_BYTES: Final = 64
"""Of the numbers of a list that is set apart."""
_NUMBERS_BYTES: Final = 2**16
"""Decoded at once of such a list."""
_MAX_NUMBER_BYTES: Final = 4096

_OPEN, _CLOSE, _BRACE, _QUOTE, _COMMA, _COLON = range(1, 7)
_KINDS: Final = np.zeros(256, np.uint8)
_KINDS[list(b'[]{}",:')] = _OPEN, _CLOSE, _BRACE, _BRACE, _QUOTE, _COMMA, _COLON


class Prices(NamedTuple):
    """Nanoseconds that a decoder takes."""

    container: float
    name: float
    value: float
    byte: float = 2.0
    escape: float = 15.0


PLAIN: Final = Prices(container=200, name=400, value=100)
"""Of orjson."""
TYPED: Final = Prices(container=3000, name=800, value=100)
"""Of pydantic, with a model for each object."""


class NumberList(NamedTuple):
    """The inside of a flat list of numbers."""

    start: int
    stop: int
    values: int


class Structure(Struct):
    """What a text holds."""

    size: int
    containers: int = 0
    names: int = 0
    commas: int = 0
    escapes: int = 0
    spans: list[NumberList] = []

    def check(self, prices: Prices, spans: list[NumberList]) -> None:
        """Check that decoding the text without `spans` fits the budget.

        Raises:
            BadInput: it does not.
        """
        values = self.commas + self.containers - sum(one.values for one in spans)
        size = self.size - sum(one.stop - one.start for one in spans)
        cost = self.containers * prices.container + self.names * prices.name + values * prices.value
        cost += size * prices.byte + self.escapes * prices.escape
        if cost > BUDGET_NANOSECONDS:
            raise BadInput(
                f"the body's JSON of {size} bytes has {self.containers} lists and objects, {self.names} names and {values}"
                f" values, {cost / BUDGET_NANOSECONDS:.1f} times what is decoded at once: split the request, or send"
                " tensors as binary data or flat lists of numbers",
                field="body",
            )


def structure_of(text: bytes | bytearray | memoryview, prices: Prices) -> Structure:
    """Return what `text` holds, by its punctuation alone; belongs into a thread.

    Raises:
        BadInput: its lists and objects alone exceed the budget.
    """
    found = Structure(len(text), spans=[])
    view, at, inside = memoryview(text), 0, False
    last, commas_at_last = (-1, 0), 0
    while at < len(view):
        piece = bytes(view[at : at + _PIECE_BYTES])
        if at + len(piece) < len(view) and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]  # a backslash stays with what it escapes
        if b"\\" in piece:
            found.escapes += piece.count(b"\\")
            piece = piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        if b'"' not in piece and inside:
            at += len(piece)
            continue
        kinds = _KINDS[np.frombuffer(piece, np.uint8)]
        kinds, inside = _outside(kinds, inside) if b'"' in piece else (kinds, inside)
        found.names += int(np.count_nonzero(kinds == _COLON))
        so_far = np.cumsum(kinds == _COMMA, dtype=np.int64) + found.commas
        events = np.flatnonzero((kinds > 0) & (kinds < _COMMA))
        if len(events):
            found.containers += (int(np.count_nonzero(kinds[events] < _QUOTE)) + 1) // 2
            if found.containers * prices.container > BUDGET_NANOSECONDS:
                found.check(prices, found.spans)
            where = np.concatenate(([last[0]], events + at))
            what = np.concatenate(([last[1]], kinds[events]))
            count = np.concatenate(([commas_at_last], so_far[events]))
            _take_spans(found.spans, where, what, count)
            last, commas_at_last = (int(where[-1]), int(what[-1])), int(count[-1])
        found.commas = int(so_far[-1])
        at += len(piece)
    return found


def _outside(kinds: NDArray[np.uint8], inside: bool) -> tuple[NDArray[np.uint8], bool]:  # noqa: FBT001
    """Return `kinds` without those within texts, and whether the piece ends within one."""
    quotes = kinds == _QUOTE
    within = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(bool) ^ inside
    return np.where(within & ~quotes, np.uint8(0), kinds), bool(within[-1])


def _take_spans(
    spans: list[NumberList],
    where: NDArray[np.int64],
    what: NDArray[np.int64],
    count: NDArray[np.int64],
) -> None:
    flat = (what[:-1] == _OPEN) & (what[1:] == _CLOSE) & (np.diff(where) > _MIN_LIST_BYTES)
    for place in np.flatnonzero(flat):
        commas = int(count[place + 1] - count[place])
        spans.append(NumberList(int(where[place]) + 1, int(where[place + 1]), commas + 1))


async def to_thread_if_large(
    size: int, work: Callable[Told, Found], *told: Told.args, **more: Told.kwargs
) -> Found:
    """Return what `work` does about `size` bytes: of many, in a thread that gives the event loop its turns."""
    if size <= SMALL_BYTES:
        return work(*told, **more)
    return await asyncio.to_thread(work, *told, **more)


class Numbers:
    """A flat list of numbers that is not decoded yet."""

    __slots__ = ("_span", "_text")

    def __init__(self, text: memoryview, span: NumberList) -> None:
        self._text = text
        self._span = span

    def __len__(self) -> int:
        return self._span.values

    def pieces(self) -> Iterator[bytes]:
        """Yield it as several lists in JSON.

        Raises:
            BadInput: one of its numbers has no end.
        """
        at, stop, _ = self._span
        while at < stop:
            end = min(at + _NUMBERS_BYTES, stop)
            if end < stop:
                comma = bytes(self._text[end : end + _MAX_NUMBER_BYTES]).find(b",")
                if comma < 0 and stop - end > _MAX_NUMBER_BYTES:
                    raise BadInput(
                        f"a number in the body has more than {_MAX_NUMBER_BYTES} characters: send fewer",
                        field="body",
                    )
                end = stop if comma < 0 else end + comma
            yield b"[%b]" % bytes(self._text[at:end])
            if end == stop:
                return
            at = end + 1
            if at == stop:
                yield b"[,]"  # a comma and nothing behind it


def without(text: memoryview, spans: list[NumberList]) -> tuple[bytes, dict[Any, Numbers]]:
    """Return `text` with a string of its own for each of the lists of `spans`, and what each stands for."""
    mark = secrets.token_hex(8)  # a client cannot send it
    parts, numbers, at = list[bytes | memoryview](), dict[Any, Numbers](), 0
    for place, one in enumerate(spans):
        name = f"{mark}{place}"
        parts += (text[at : one.start - 1], b'"%b"' % name.encode())
        numbers[name] = Numbers(text, one)
        at = one.stop + 1
    return b"".join((*parts, text[at:])), numbers


def put_back(data: Any, numbers: dict[Any, Numbers]) -> Any:
    """Return `data` with the lists of numbers where they were; those are taken out of `numbers`."""
    if type(data) is list:
        return [put_back(one, numbers) if type(one) in (str, list) else one for one in data]
    return numbers.pop(data, data) if type(data) is str else data
