"""How many tokens a client may leave unread."""

import pytest

from penstock_runtime.engine.continuous.messages import Logprob, TokensEmitted
from penstock_runtime.serving.generation.mailbox import (
    LOGPROB_BYTES,
    MAX_BYTES,
    MAX_TOKENS,
    TOKEN_BYTES,
    Mailbox,
)

CHUNK = 64


def tokens_until_full(choices: int, alternatives: int | None = None) -> int:
    """Return how many tokens fit, in events of CHUNK."""
    top = () if alternatives is None else tuple((n, -1.0) for n in range(alternatives))
    logprobs = () if alternatives is None else (Logprob(-1.0, top),) * CHUNK
    mailbox, count = Mailbox(choices), 0
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
    mailbox = Mailbox()
    for _ in range(3):
        assert mailbox.put(TokensEmitted("a", 0, (1,) * MAX_TOKENS))
        assert len(await mailbox.take(1.0)) == 1
