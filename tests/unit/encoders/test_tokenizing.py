"""Texts to rows: many at once, off the loop, and one bad text is its own request's affair."""

import asyncio
import threading
from collections.abc import Callable

import numpy as np
import pytest

from penstock_runtime.errors import BadInput
from penstock_runtime.tokenizing import Ids, Tokenizing, rows_of


class Letters:
    """A token a letter; holds its thread while it is shut, and refuses `?`."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.threads: set[str] = set()
        self.open = threading.Event()
        self.open.set()

    def encode(self, texts: list[str]) -> list[Ids]:
        self.calls.append(texts)
        self.threads.add(threading.current_thread().name)
        assert self.open.wait(10)
        if "?" in texts:
            raise ValueError("a question")
        return [np.array([ord(letter) - 97 for letter in text], np.int64) for text in texts]

    def tokenizing(self, most: int = 4) -> Tokenizing:
        return Tokenizing(
            self.encode, lambda texts: self.encode([t[:most] for t in texts]), most, 26
        )


async def soon(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.001)


async def test_what_comes_while_one_call_runs_shares_the_next() -> None:
    letters = Letters()
    texts = letters.tokenizing()
    letters.open.clear()
    first = asyncio.create_task(texts.encode(["a"], "input"))
    await soon(lambda: len(letters.calls) == 1)
    more = [asyncio.create_task(texts.encode([word, "z"], "input")) for word in ("b", "c", "d")]
    await asyncio.sleep(0)
    letters.open.set()
    assert [one.tolist() for one in await first] == [[0]]
    assert [[one.tolist() for one in await task] for task in more] == [
        [[1], [25]],
        [[2], [25]],
        [[3], [25]],
    ]
    assert letters.calls == [["a"], ["b", "z", "c", "z", "d", "z"]]
    assert threading.current_thread().name not in letters.threads


async def test_a_text_that_cannot_be_tokenised_fails_alone() -> None:
    letters = Letters()
    texts = letters.tokenizing()
    good, bad, more = await asyncio.gather(
        texts.encode(["ab"], "input"),
        texts.encode(["?"], "input"),
        texts.encode(["c"], "input"),
        return_exceptions=True,
    )
    assert [one.tolist() for one in good] == [[0, 1]]  # type: ignore[union-attr]
    assert [one.tolist() for one in more] == [[2]]  # type: ignore[union-attr]
    assert isinstance(bad, BadInput)
    assert (bad.field, bad.message) == ("input", "`input` cannot be tokenised: a question")


async def test_a_request_that_is_cancelled_while_it_waits_disturbs_nobody() -> None:
    letters = Letters()
    texts = letters.tokenizing()
    letters.open.clear()
    first, gone, last = (
        asyncio.create_task(texts.encode([word], "input")) for word in ("a", "b", "c")
    )
    await soon(lambda: len(letters.calls) == 1)
    gone.cancel()
    letters.open.set()
    assert [(await task)[0].tolist() for task in (first, last)] == [[0], [2]]


async def test_a_text_that_is_too_long_is_named_or_cut() -> None:
    texts = Letters().tokenizing(most=4)
    with pytest.raises(BadInput) as raised:
        await texts.encode(["ab", "abcde"], "input")
    assert raised.value.field == "input[1]"
    assert "has 5 tokens, the model takes 1 to 4" in raised.value.message
    assert [len(one) for one in await texts.encode(["ab", "abcde"], "input", cut=True)] == [2, 4]


def test_ids_outside_the_vocabulary_are_named() -> None:
    texts = Letters().tokenizing()
    with pytest.raises(
        BadInput, match="`input\\[1\\]` holds a token id outside the vocabulary of 26"
    ):
        texts.check([np.array([1]), np.array([26])], "input")


def test_rows_are_padded_with_zeros_behind_them() -> None:
    rows = rows_of([np.array([7, 8]), np.array([9, 9, 9]), np.array([4])])
    assert rows["input_ids"].tolist() == [[7, 8, 0], [9, 9, 9], [4, 0, 0]]
    assert rows["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1], [1, 0, 0]]
