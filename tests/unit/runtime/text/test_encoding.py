"""Collection of a text from pieces: its limit, and its memory while it grows."""

import itertools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock_runtime.errors import ContextExceeded
from penstock_runtime.text.bounds import max_text_bytes
from penstock_runtime.text.encoding import MEMORY_PER_PART_BYTE, PART_BYTES, TextEncoder
from penstock_runtime.text.tokenizer import Tokenizer
from penstock_runtime.text.vocabulary import read_vocabulary
from tests.support.demo_model.tokenizer import make_tokenizer

CONTEXT = 2**14


class Reservations:
    """The bytes that are reserved."""

    def __init__(self) -> None:
        self.now = 0

    def reserve(self, size: int) -> Callable[[], None]:
        self.now += size

        def release() -> None:
            self.now -= size

        return release


@pytest.fixture
def reservations() -> Reservations:
    return Reservations()


@pytest.fixture
def encoder(reservations: Reservations) -> TextEncoder:
    backend = make_tokenizer()
    tokenizer = Tokenizer(backend, read_vocabulary(backend), None, None, {}, frozenset())
    return TextEncoder(tokenizer, CONTEXT, reservations.reserve, 2**29)


async def test_an_endless_text_ends_at_the_limit_of_the_context(
    encoder: TextEncoder, reservations: Reservations
) -> None:
    computed = itertools.count()
    pieces = ("é" * 500 for _ in computed)
    with pytest.raises(ContextExceeded, match="`messages` has"):
        await encoder.collect(pieces, "messages")
    assert next(computed) * 1000 <= max_text_bytes(CONTEXT) + PART_BYTES + 2000
    assert reservations.now == 0


async def test_the_memory_of_a_growing_text_counts_until_it_is_complete(
    encoder: TextEncoder, reservations: Reservations
) -> None:
    counted = list[int]()

    def pieces() -> Iterator[str]:
        for _ in range(3):
            counted.append(reservations.now)
            yield "a" * PART_BYTES
        yield "end"

    text = await encoder.collect(pieces(), "messages")
    assert text == "a" * 3 * PART_BYTES + "end"
    assert counted == [n * PART_BYTES * MEMORY_PER_PART_BYTE for n in range(3)]
    assert reservations.now == 0


class Text(str):
    """A text that can be watched."""

    __slots__ = ("__weakref__",)


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_a_text_that_a_thread_rejected(
    encoder: TextEncoder, reservations: Reservations, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "max_ids", 10)
    kept = list[weakref.ref[Text]]()

    async def encode() -> None:
        text = Text("a river " * 1000)
        kept.append(weakref.ref(text))
        await encoder.encode(text, "prompt", add_special=False)

    with pytest.raises(ContextExceeded):
        await encode()
    await until(lambda: kept[0]() is None, 5.0)
    assert reservations.now == 0
