"""Estimated cost of decoding a large JSON text, computed in pieces because the decoder holds the GIL throughout.

Long flat lists of numbers are extracted: they are decoded in pieces later (`Numbers`) and cost nothing here.
"""

import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from penstock_runtime.errors import BadInput
from penstock_runtime.serving.admission.memory_budget import Hold

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SMALL_BYTES: Final = 2**17
"""Longest text that is decoded within 50 ms whatever its content."""
BUDGET_NANOSECONDS: Final = 50_000_000
_PIECE_BYTES: Final = 2**18
_MIN_LIST_BYTES: Final = 64
"""The shortest list of numbers that is extracted, in bytes."""
_NUMBERS_BYTES: Final = 2**16
"""The bytes of an extracted list that are decoded at once."""
_MAX_NUMBER_BYTES: Final = 4096

_OPEN, _CLOSE, _BRACE, _QUOTE, _COMMA, _COLON = range(1, 7)
_KINDS: Final = np.zeros(256, np.uint8)
_KINDS[list(b'[]{}",:')] = _OPEN, _CLOSE, _BRACE, _BRACE, _QUOTE, _COMMA, _COLON


class Prices(NamedTuple):
    """The cost of each part of a text for a decoder, in nanoseconds."""

    container: float
    name: float
    value: float
    byte: float = 2.0
    escape: float = 15.0


PLAIN: Final = Prices(container=200, name=400, value=100)
"""The prices of orjson."""
TYPED: Final = Prices(container=3000, name=800, value=100)
"""The prices of pydantic with a model for each object."""


class NumberList(NamedTuple):
    """The position of a flat list of numbers within its brackets, and its number of values."""

    start: int
    stop: int
    values: int


class Structure(Struct):
    """The counts of a JSON text's parts."""

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
        values = self.commas + self.containers - sum(span.values for span in spans)
        size = self.size - sum(span.stop - span.start for span in spans)
        cost = self.containers * prices.container + self.names * prices.name + values * prices.value
        cost += size * prices.byte + self.escapes * prices.escape
        if cost > BUDGET_NANOSECONDS:
            raise BadInput(
                f"the body's JSON of {size} bytes has {self.containers} lists and objects, {self.names} names and {values}"
                f" values, {cost / BUDGET_NANOSECONDS:.1f} times the limit for one body: split the request, or send"
                " tensors as binary data or flat lists of numbers",
                field="body",
            )


def structure_of(text: bytes | bytearray | memoryview, prices: Prices) -> Structure:
    """Return the counts of `text`, from its punctuation alone; run it in a thread for a long text.

    Raises:
        BadInput: its lists and objects alone exceed the budget.
    """
    structure = Structure(len(text), spans=[])
    view, at, inside = memoryview(text), 0, False
    last, commas_at_last = (-1, 0), 0
    while at < len(view):
        piece = bytes(view[at : at + _PIECE_BYTES])
        if at + len(piece) < len(view) and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]  # a backslash stays with what it escapes
        if b"\\" in piece:
            structure.escapes += piece.count(b"\\")
            piece = piece.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        if b'"' not in piece and inside:
            at += len(piece)
            continue
        kinds = _KINDS[np.frombuffer(piece, np.uint8)]
        kinds, inside = _outside(kinds, inside) if b'"' in piece else (kinds, inside)
        structure.names += int(np.count_nonzero(kinds == _COLON))
        so_far = np.cumsum(kinds == _COMMA, dtype=np.int64) + structure.commas
        events = np.flatnonzero((kinds > 0) & (kinds < _COMMA))
        if len(events):
            structure.containers += (int(np.count_nonzero(kinds[events] < _QUOTE)) + 1) // 2
            if structure.containers * prices.container > BUDGET_NANOSECONDS:
                structure.check(prices, structure.spans)
            where = np.concatenate(([last[0]], events + at))
            what = np.concatenate(([last[1]], kinds[events]))
            count = np.concatenate(([commas_at_last], so_far[events]))
            _take_spans(structure.spans, where, what, count)
            last, commas_at_last = (int(where[-1]), int(what[-1])), int(count[-1])
        structure.commas = int(so_far[-1])
        at += len(piece)
    return structure


def _outside(kinds: NDArray[np.uint8], inside: bool) -> tuple[NDArray[np.uint8], bool]:  # noqa: FBT001
    """Return `kinds` with punctuation inside strings cleared, and whether the piece ends inside a string."""
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
    size: int,
    hold: Hold,
    work: Callable[Arguments, Result],
    *arguments: Arguments.args,
    **more: Arguments.kwargs,
) -> Result:
    """Return the result of `work`, which runs in a thread if `size` bytes are many; `hold` counts them to its end."""
    if size <= SMALL_BYTES:
        return work(*arguments, **more)
    return await hold.in_thread(work, *arguments, **more)


class Numbers:
    """An extracted flat list of numbers, not decoded yet."""

    __slots__ = ("_span", "_text")

    def __init__(self, text: memoryview, span: NumberList) -> None:
        blank = span.values == 1 and bytes(text[span.start : span.stop]).isspace()
        self._text = text
        self._span = span._replace(values=0) if blank else span

    def __len__(self) -> int:
        return self._span.values

    def pieces(self) -> Iterator[bytes]:
        """Yield the list as several shorter lists in JSON.

        Raises:
            BadInput: a number is too long.
        """
        start, stop, _ = self._span
        at = start
        while True:
            end = min(at + _NUMBERS_BYTES, stop)
            if end < stop:
                comma = bytes(self._text[end : end + _MAX_NUMBER_BYTES]).find(b",")
                if comma < 0 and stop - end > _MAX_NUMBER_BYTES:
                    raise BadInput(
                        f"a number in the body has more than {_MAX_NUMBER_BYTES} characters: send fewer digits",
                        field="body",
                    )
                end = stop if comma < 0 else end + comma
            piece = bytes(self._text[at:end])
            blank = not piece.strip() and (at, end) != (start, stop)
            yield b"[,]" if blank else b"[%b]" % piece  # a comma without a number is invalid
            if end == stop:
                return
            at = end + 1


def without(text: memoryview, spans: list[NumberList]) -> tuple[bytes, dict[Any, Numbers]]:
    """Return `text` with a unique string in place of each list of `spans`, and the list of each string."""
    mark = secrets.token_hex(8)  # a client cannot guess it
    parts, numbers, at = list[bytes | memoryview](), dict[Any, Numbers](), 0
    for index, span in enumerate(spans):
        name = f"{mark}{index}"
        parts += (text[at : span.start - 1], b'"%b"' % name.encode())
        numbers[name] = Numbers(text, span)
        at = span.stop + 1
    return b"".join((*parts, text[at:])), numbers


def put_back(data: Any, numbers: dict[Any, Numbers]) -> Any:
    """Return `data` with the extracted lists in their places; those are removed from `numbers`."""
    if type(data) is list:
        return [put_back(part, numbers) if type(part) in (str, list) else part for part in data]
    return numbers.pop(data, data) if type(data) is str else data
