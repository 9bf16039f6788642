"""How many tokens a client may leave unread, and how they count."""

import pytest

from penstock_runtime.engine.continuous.messages import Logprob, TokensEmitted
from penstock_runtime.serving.admission.memory_budget import MemoryBudget, UnreadTokens
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.generation.mailbox import (
    FREE_BYTES,
    FREE_CHOICE_BYTES,
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
    mailbox, count = Mailbox(UnreadTokens(uncounted, 2**40), choices), 0
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
    mailbox = Mailbox(UnreadTokens(uncounted, 2**40))
    for _ in range(3):
        assert mailbox.put(TokensEmitted("a", 0, (1,) * MAX_TOKENS))
        assert len(await mailbox.take(1.0)) == 1


@pytest.mark.parametrize("chunk", [1, 7, TOKENS_PER_TURN - 1])
async def test_many_tokens_are_taken_in_order_over_many_turns(chunk: int) -> None:
    mailbox, size = Mailbox(UnreadTokens(uncounted, 2**40)), 0
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
    mailbox = Mailbox(UnreadTokens(uncounted, 2**40))
    assert all(mailbox.put(event(number)) for number in range(MAX_TOKENS))
    assert not mailbox.put(event(0))
    room = len(await mailbox.take(1.0))
    assert sum(mailbox.put(event(0)) for _ in range(2 * room)) == room


async def test_unread_tokens_count_in_the_memory_of_the_pod() -> None:
    memory, tokens = MemoryBudget(2**24, lambda: 1.0), 0
    mailbox, free = Mailbox(memory.unread_tokens), FREE_BYTES + FREE_CHOICE_BYTES
    while tokens < MAX_TOKENS:
        assert mailbox.put(event(0))
        tokens += 1
        assert memory.held_bytes == max(tokens * TOKEN_BYTES - free, 0)
    while tokens:
        tokens -= len(await mailbox.take(1.0))
        assert memory.held_bytes == max(tokens * TOKEN_BYTES - free, 0)
    assert mailbox.put(event(0))


async def test_paused_streams_keep_out_no_request_and_cut_no_reader() -> None:
    memory, ticket = MemoryBudget(2**29, lambda: 1.0), Ticket("a", 0.0)
    reader, paused = Mailbox(memory.unread_tokens), []
    assert all(reader.put(event(number)) for number in range(1000))
    for _ in range(20):
        mailbox = Mailbox(memory.unread_tokens, choices=128)
        while mailbox.put(event(0, CHUNK)):
            pass
        paused.append(mailbox)
    assert memory.held_bytes <= 2**27
    memory.hold(ticket, 2**28)
    assert not reader.dropped
    assert reader.put(event(1000))
    assert any(mailbox.dropped for mailbox in paused)
    for mailbox in (*paused, reader):
        mailbox.drop()
    assert memory.held_bytes == 2**28


async def test_a_dropped_mailbox_takes_no_more_tokens_and_its_reader_learns_of_it() -> None:
    unread = UnreadTokens(uncounted, 2**20)
    mailbox = Mailbox(unread)
    while mailbox.put(event(0, CHUNK)):
        pass
    assert mailbox.dropped
    assert not mailbox.put(event(0))
    assert await mailbox.take(0.0) == []


async def test_a_step_of_every_choice_is_free() -> None:
    """A reader that keeps up has a step of them unread, whatever the memory of the pod."""
    unread = UnreadTokens(uncounted, 0)
    mailbox, top = Mailbox(unread, choices=128), tuple((n, -1.0) for n in range(20))
    for choice in range(128):
        assert mailbox.put(TokensEmitted("a", choice, (1,), (Logprob(-1.0, top),)))
    assert not mailbox.dropped
