"""What a client gets of a generation that it reads late, that ends badly or is handed over."""

import asyncio
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from penstock_runtime.engine.continuous.messages import Ended, Interrupted, TokensEmitted, Usage
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.request import Cancelled, Expired, Failed, RequestOutcome
from penstock_runtime.serving.admission.memory_budget import MemoryBudget
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.generation.handover.relay import TERMINATING
from penstock_runtime.serving.generation.mailbox import (
    FREE_BYTES,
    FREE_CHOICE_BYTES,
    MAX_TOKENS,
    TOKEN_BYTES,
    TOKENS_PER_TURN,
)
from penstock_runtime.serving.generation.request import GenerationCall, Prompt
from penstock_runtime.serving.generation.response_stream import GenerationError, ResponseStream
from penstock_runtime.text.vocabulary import Vocabulary

LETTERS = Vocabulary(tuple(b"abcdefgh"[i : i + 1] for i in range(8)), frozenset())
USAGE = Usage(
    prompt_tokens=1, completion_tokens=0, cached_tokens=0, queue_seconds=0.0, preemptions=0
)


class NoEngine:
    """Delivers the ends of handed-over prompts at once."""

    def __init__(self) -> None:
        self.memory = MemoryBudget(2**30, lambda: 1.0)
        self.handed_over: list[str] = []
        self.ends: list[object] = []

    def now(self) -> float:
        return 1.0

    def deliver_elsewhere(self, event: Ended) -> bool:
        self.ends.append(event.end)
        return True

    def begin(self, interruption: Any, outputs: object, deliver: object) -> None:
        self.handed_over.append(interruption.id)


def a_stream(
    prompt: tuple[int, ...], params: SamplingParams, n: int = 1
) -> tuple[ResponseStream, NoEngine]:
    engine: Any = NoEngine()
    serving: Any = SimpleNamespace(
        tokenizer=SimpleNamespace(vocabulary=LETTERS), own_ends=frozenset()
    )
    call = GenerationCall((Prompt(prompt, params),), n=n)
    return ResponseStream(call, [Ticket("a", 0.0)], engine, serving, engine), engine


@pytest.mark.parametrize("end", [Expired(1.0), Failed("not a number")])
async def test_tokens_before_a_failing_end_are_returned_and_then_the_error(
    end: Expired | Failed,
) -> None:
    stream, _ = a_stream((1, 2), SamplingParams(max_tokens=100))
    for token in range(5):
        stream._mailbox.put(TokensEmitted("a", 0, (token,)))
    stream._mailbox.put(Ended("a", end))
    assert "".join(piece.text for piece in await stream.next(1.0)) == "abcde"
    assert stream.cost.completion_tokens == 5
    with pytest.raises(GenerationError) as error:
        await stream.next(1.0)
    assert error.value.end == end
    assert stream.outcome in {RequestOutcome.EXPIRED, RequestOutcome.FAILED}


async def test_an_end_without_tokens_raises_at_once() -> None:
    stream, _ = a_stream((1, 2), SamplingParams(max_tokens=100))
    stream._mailbox.put(Ended("a", Expired(1.0)))
    with pytest.raises(GenerationError):
        await stream.next(1.0)


async def test_an_answer_whose_unread_tokens_are_dropped_ends_visibly() -> None:
    stream, engine = a_stream((1,), SamplingParams(max_tokens=9))
    assert stream._mailbox.put(TokensEmitted("a", 0, (1,)))
    stream._mailbox.drop()
    with pytest.raises(GenerationError) as ended:
        await stream.next(1.0)
    assert isinstance(ended.value.end, Cancelled)
    stream.close()
    assert engine.memory.held_bytes == 0


async def test_a_full_mailbox_is_read_in_many_turns_of_the_event_loop() -> None:
    stream, engine = a_stream((1,), SamplingParams(max_tokens=9), n=8)
    size = turns = 0
    while stream._mailbox.put(TokensEmitted("a", size % 8, (size % 7,))):
        size += 1
    assert size == 8 * MAX_TOKENS
    free = FREE_BYTES + 8 * FREE_CHOICE_BYTES
    assert engine.memory.held_bytes == size * TOKEN_BYTES - free

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count_turns())
    texts = [""] * 8
    while sum(map(len, texts)) < size:
        pieces = await stream.next(1.0)
        assert len(pieces) <= TOKENS_PER_TURN
        for piece in pieces:
            texts[piece.index] += piece.text
    other.cancel()
    assert turns >= size // TOKENS_PER_TURN - 1
    assert texts == ["".join("abcdefg"[n % 7] for n in range(first, size, 8)) for first in range(8)]
    assert engine.memory.held_bytes == 0


@pytest.mark.usefixtures("uncollected")
async def test_nothing_is_kept_of_an_answer_that_ended_badly() -> None:
    stream, _ = a_stream((1, 2), SamplingParams(max_tokens=100))
    stream._mailbox.put(Ended("a", Expired(1.0)))
    kept = weakref.ref(stream)
    with pytest.raises(GenerationError):
        await stream.next(1.0)
    del stream
    assert kept() is None


@pytest.mark.parametrize(("prompt", "continued"), [((1,), ["a"]), ((1, 2), [])])
async def test_a_prompt_without_log_probabilities_of_its_own_is_handed_over_at_once(
    prompt: tuple[int, ...], continued: list[str]
) -> None:
    stream, engine = a_stream(prompt, SamplingParams(max_tokens=9, prompt_logprobs=1))
    stream._mailbox.put(Ended("a", Interrupted(USAGE)))
    assert await stream.next(1.0) == []
    assert engine.handed_over == continued
    assert engine.ends == ([] if continued else [TERMINATING])
