"""How many tokens a client may leave unread, and how they count."""

from functools import partial

import pytest

from penstock_runtime.engine.continuous.messages import Logprob, TokensEmitted
from penstock_runtime.serving.admission.memory_budget import MemoryBudget
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.generation.mailbox import (
    FREE_BYTES,
    LOGPROB_BYTES,
    MAX_BYTES,
    MAX_TOKENS,
    TOKEN_BYTES,
    TOKENS_PER_TURN,
    Mailbox,
)

CHUNK = 64


def uncounted(more_bytes: int) -> None:
    """Take any memory."""


def event(number: int, tokens: int = 1) -> TokensEmitted:
    return TokensEmitted("a", 0, (number,) * tokens)


def tokens_until_full(choices: int, alternatives: int | None = None) -> int:
    """Return how many tokens fit, in events of CHUNK."""
    top = () if alternatives is None else tuple((n, -1.0) for n in range(alternatives))
    logprobs = () if alternatives is None else (Logprob(-1.0, top),) * CHUNK
    mailbox, count = Mailbox(uncounted, choices), 0
    while mailbox.put(TokensEmitted("a", count // CHUNK % choices, (1,) * CHUNK, logprobs)):
        count += CHUNK
    return count


@pytest.mark.parametrize("choices", [1, 2, 8])
def test_every_choice_may_be_as_far_ahead_as_a_single_one(choices: int) -> None:
    assert tokens_until_full(choices) == MAX_TOKENS * choices


def test_a_single_choice_with_all_alternatives_may_be_as_far_ahead_as_without() -> None:
    assert tokens_until_full(1, alternatives=20) == MAX_TOKENS


@pytest.mark.parametrize("alternatives", [None, 0, 20])
def test_the_memory_of_many_choices_is_bounded(alternatives: int | None) -> None:
    values = 0 if alternatives is None else 1 + alternatives
    token_bytes = TOKEN_BYTES + LOGPROB_BYTES * values
    assert 0 <= MAX_BYTES - token_bytes * tokens_until_full(128, alternatives) < token_bytes * CHUNK


async def test_what_was_read_does_not_count() -> None:
    mailbox = Mailbox(uncounted)
    for _ in range(3):
        assert mailbox.put(TokensEmitted("a", 0, (1,) * MAX_TOKENS))
        assert len(await mailbox.take(1.0)) == 1


@pytest.mark.parametrize("chunk", [1, 7, TOKENS_PER_TURN - 1])
async def test_many_tokens_are_taken_in_order_over_many_turns(chunk: int) -> None:
    mailbox, size = Mailbox(uncounted), 0
    taken: list[int] = []
    while mailbox.put(event(size, chunk)):
        size += chunk
    last = -1
    while last != size - chunk:
        events = await mailbox.take(1.0)
        tokens = [token for event in events for token in getattr(event, "tokens", ())]
        assert len(tokens) < TOKENS_PER_TURN + chunk
        taken, last = [*taken, *tokens[::chunk]], tokens[-1]
    assert taken == list(range(0, size, chunk))


async def test_what_is_left_counts_and_nothing_else() -> None:
    mailbox = Mailbox(uncounted)
    assert all(mailbox.put(event(number)) for number in range(MAX_TOKENS))
    assert not mailbox.put(event(0))
    room = len(await mailbox.take(1.0))
    assert sum(mailbox.put(event(0)) for _ in range(2 * room)) == room


async def test_unread_tokens_count_in_the_memory_of_the_pod() -> None:
    memory, ticket = MemoryBudget(2**20, lambda: 1.0), Ticket("a", 0.0)
    mailbox, tokens = Mailbox(partial(memory.grow, ticket)), 0
    while mailbox.put(event(0)):
        tokens += 1
        assert memory.held_bytes == ticket.bytes == max(tokens * TOKEN_BYTES - FREE_BYTES, 0)
    assert 0 <= 2**20 + FREE_BYTES - tokens * TOKEN_BYTES < TOKEN_BYTES
    while tokens:
        tokens -= len(await mailbox.take(1.0))
        assert memory.held_bytes == ticket.bytes == max(tokens * TOKEN_BYTES - FREE_BYTES, 0)
    assert mailbox.put(event(0))
