"""Texts to rows: many at once, off the loop, and one bad text is its own request's affair."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

import numpy as np
import pytest

from penstock_runtime.errors import BadInput, ContextExceeded, TooLarge
from penstock_runtime.serving import tokenizer_pool
from penstock_runtime.serving.admission.memory_budget import MemoryBudget
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.tokenizer_pool import Ids, TokenizerPool, rows_of, texts_bytes


class Text(str):
    """A text that can be watched."""

    __slots__ = ("__weakref__",)


class Letters:
    """A token a letter; holds its thread while it is shut, and rejects `?`."""

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

    def tokenizing(self, most: int = 4) -> TokenizerPool:
        return TokenizerPool(
            self.encode, lambda texts: self.encode([t[:most] for t in texts]), most, 26
        )


def free(_size: int) -> None:
    """Hold any size."""


async def soon(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - another thread's
            await asyncio.sleep(0.001)


async def held_by(first: list[str]) -> tuple[Letters, TokenizerPool, "asyncio.Task[list[Ids]]"]:
    """Return a tokeniser whose thread is held by a first request until it is opened."""
    letters = Letters()
    texts = letters.tokenizing()
    letters.open.clear()
    task = asyncio.create_task(texts.encode(first, "input", free))
    await soon(lambda: len(letters.calls) == 1)
    return letters, texts, task


async def test_what_comes_while_one_call_runs_shares_the_next() -> None:
    letters, texts, first = await held_by(["a"])
    more = [
        asyncio.create_task(texts.encode([word, "z"], "input", free)) for word in ("b", "c", "d")
    ]
    await asyncio.sleep(0)
    letters.open.set()
    assert [ids.tolist() for ids in await first] == [[0]]
    assert [[ids.tolist() for ids in await task] for task in more] == [
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
        texts.encode(["ab"], "input", free),
        texts.encode(["?"], "input", free),
        texts.encode(["c"], "input", free),
        return_exceptions=True,
    )
    assert [ids.tolist() for ids in good] == [[0, 1]]  # type: ignore[union-attr]
    assert [ids.tolist() for ids in more] == [[2]]  # type: ignore[union-attr]
    assert isinstance(bad, BadInput)
    assert (bad.field, bad.message) == ("input", "`input` cannot be tokenized: a question")


async def test_a_request_that_is_cancelled_while_it_waits_disturbs_no_other() -> None:
    letters, texts, first = await held_by(["a"])
    gone, last = (asyncio.create_task(texts.encode([word], "input", free)) for word in ("b", "c"))
    await asyncio.sleep(0)
    gone.cancel()
    letters.open.set()
    assert [(await task)[0].tolist() for task in (first, last)] == [[0], [2]]
    assert letters.calls == [["a"], ["c"]]


async def test_nothing_is_kept_of_a_request_that_was_cancelled_behind_a_long_one() -> None:
    letters, texts, first = await held_by(["a"])
    gone = Text("b" * 1000)
    kept = weakref.ref(gone)
    task = asyncio.create_task(texts.encode([gone], "input", free))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    del gone, task
    gc.collect()
    assert kept() is None
    letters.open.set()
    await first


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("bad", ["abcde", "?"])
async def test_nothing_is_kept_of_a_request_that_was_rejected(bad: str) -> None:
    letters, kept = Letters(), list[weakref.ref[Text]]()
    texts = letters.tokenizing(most=4)

    async def serve() -> None:
        text = Text(bad)
        kept.append(weakref.ref(text))
        await texts.encode([text], "input", free)

    with pytest.raises(BadInput):
        await serve()
    letters.calls.clear()
    await soon(lambda: kept[0]() is None)


async def test_a_request_of_many_texts_shares_the_thread_with_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_pool, "MAX_CHARACTERS", 4)
    letters, texts, many = await held_by(["aa", "bb", "cc", "dd", "ee"])
    waiting = asyncio.create_task(texts.encode(["z"], "input", free))
    await asyncio.sleep(0)
    letters.open.set()
    assert [ids.tolist() for ids in await waiting] == [[25]]
    assert [ids[0] for ids in await many] == [0, 1, 2, 3, 4]
    assert letters.calls == [["aa", "bb"], ["z", "cc", "dd"], ["ee"]]


async def test_the_rest_of_a_request_is_left_undone_when_it_goes_or_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_pool, "MAX_CHARACTERS", 1)
    letters, texts, gone = await held_by(["a", "b", "c"])
    bad = asyncio.create_task(texts.encode(["?", "d"], "input", free))
    last = asyncio.create_task(texts.encode(["e"], "input", free))
    await asyncio.sleep(0)
    gone.cancel()
    letters.open.set()
    assert (await last)[0].tolist() == [4]
    with pytest.raises(BadInput):
        await bad
    assert {text for texts in letters.calls for text in texts} == {"a", "?", "e"}


async def test_the_first_text_that_is_too_long_ends_its_request_and_spares_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_pool, "MAX_CHARACTERS", 4)
    letters = Letters()
    texts = letters.tokenizing(most=4)
    with pytest.raises(ContextExceeded) as raised:
        await texts.encode(["ab", "cd", "abcde", "e", "f"], "input", free)
    assert raised.value.field == "input[2]"
    assert letters.calls == [["ab", "cd"], ["abcde"]]
    assert [ids.tolist() for ids in await texts.encode(["z"], "input", free)] == [[25]]


async def test_ids_are_counted_while_the_rest_of_their_request_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tokenizer_pool, "MAX_CHARACTERS", 4)
    letters, given = Letters(), ["abcd"] * 5
    size, sizes = texts_bytes(given), list[int]()
    memory, ticket = MemoryBudget(size + 100, lambda: 1.0), Ticket("a", 0.0)

    def hold(size: int) -> None:
        sizes.append(size)
        memory.hold(ticket, size)

    with pytest.raises(TooLarge):
        await letters.tokenizing().encode(given, "input", hold)
    assert sizes == [size + 32, size + 64, size + 96, size + 128]
    assert letters.calls == [["abcd"]] * 4


async def test_a_text_far_beyond_what_the_model_takes_is_not_tokenised() -> None:
    letters = Letters()
    texts = letters.tokenizing(most=4)
    most = texts.max_bytes
    with pytest.raises(BadInput) as raised:
        await texts.encode(["ab", "a" * (most + 1)], "input", free)
    assert raised.value.field == "input[1]"
    assert f"has {most + 1} bytes of text, more than the maximum of {most}" in raised.value.message
    assert letters.calls == []


async def test_such_a_text_is_cut_before_it_is_tokenised_where_it_is_to_be_cut() -> None:
    given = list[int]()

    def cut(texts: list[str]) -> list[Ids]:
        given.extend(map(len, texts))
        return [np.zeros(4, np.int64) for _ in texts]

    texts = tokenizer_pool.TokenizerPool(cut, cut, 4, 26)
    await texts.encode(["a" * 10**6, "ab"], "input", free, cut=True)
    assert given == [texts.max_bytes, 2]


async def test_a_text_that_is_too_long_is_named_or_cut() -> None:
    texts = Letters().tokenizing(most=4)
    with pytest.raises(BadInput) as raised:
        await texts.encode(["ab", "abcde"], "input", free)
    assert raised.value.field == "input[1]"
    assert "has 5 tokens, this model's maximum context length is 4 tokens" in raised.value.message
    assert [len(ids) for ids in await texts.encode(["ab", "abcde"], "input", free, cut=True)] == [
        2,
        4,
    ]


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


def ids_of(*lengths: int) -> list[Ids]:
    return [np.ones(length, np.int64) for length in lengths]


async def test_rows_that_padding_makes_too_large_are_rejected_before_they_are_built() -> None:
    memory, ticket = MemoryBudget(2**30, lambda: 1.0), Ticket("a", 0.0)
    hold = memory.holding(ticket)
    most = ids_of(1024, *[1] * 2047)
    rows = await tokenizer_pool.held_rows_of(most, "input", hold)
    assert rows["input_ids"].shape == (2048, 1024)
    assert memory.held_bytes == sum(tensor.nbytes for tensor in rows.values())
    with pytest.raises(BadInput) as raised:
        await tokenizer_pool.held_rows_of([*most, *ids_of(1)], "input", hold)
    assert raised.value.field == "input"
    assert "2049 rows, padded to 1024 tokens: 2098176 tokens" in raised.value.message
    assert "more than the 2097152 of one request" in raised.value.message


async def test_many_rows_are_built_in_a_thread_and_count_with_what_building_them_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    memory, ticket, seen = MemoryBudget(2**30, lambda: 1.0), Ticket("a", 0.0), dict[int, object]()

    def spied(ids: list[Ids]) -> object:
        seen[len(ids)] = (threading.current_thread() is here, memory.held_bytes)
        return rows_of(ids)

    here = threading.current_thread()
    monkeypatch.setattr(tokenizer_pool, "rows_of", spied)
    for rows in (256, 257):
        await tokenizer_pool.held_rows_of(ids_of(*[1024] * rows), "input", memory.holding(ticket))
        assert memory.held_bytes == rows * 1024 * 16
    assert seen == {256: (True, 256 * 1024 * 16), 257: (False, 2 * 257 * 1024 * 16)}
