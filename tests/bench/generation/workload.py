"""Workload of every peer: prompts of random ids, and the length of each answer. Uses only the standard library."""

import random
from dataclasses import dataclass

CONCURRENCY = (1, 8, 32)
LINES = ("prefill", "decode", "mixed")
SEED = 20261121


@dataclass(frozen=True)
class PromptRequest:
    """A request with prompt ids and an exact number of output tokens (no stop ids)."""

    prompt: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class Work:
    """Requests that all arrive at once; at most `concurrency` run together."""

    line: str
    concurrency: int
    requests: tuple[PromptRequest, ...]

    @property
    def counted(self) -> int:
        """Return the counted tokens: prompt tokens for prefill, else output tokens."""
        if self.line == "prefill":
            return sum(len(request.prompt) for request in self.requests)
        return sum(request.answer for request in self.requests)


@dataclass(frozen=True)
class WorkSize:
    """Amount of work."""

    prompt: int
    answer: int
    rounds: int
    """Requests per slot in the mixed line."""
    repeats: int
    """Number of runs, of which the fastest counts, because noise only slows down."""


WHOLE = WorkSize(prompt=256, answer=96, rounds=3, repeats=3)
QUICK = WorkSize(prompt=128, answer=32, rounds=2, repeats=1)


def work(line: str, concurrency: int, vocabulary: int, size: WorkSize) -> Work:
    """Return the work of one line, equal for every peer and with distinct prompts."""
    chance = random.Random(f"{SEED} {line} {concurrency}")  # noqa: S311 - no secret

    def request(prompt: int, answer: int) -> PromptRequest:
        return PromptRequest(tuple(chance.randrange(vocabulary) for _ in range(prompt)), answer)

    if line == "prefill":
        requests = [request(size.prompt, 1) for _ in range(max(4, concurrency))]
    elif line == "decode":
        requests = [request(8, size.answer) for _ in range(concurrency)]
    else:
        requests = [
            request(
                chance.randint(size.prompt // 8, size.prompt // 2),
                chance.randint(size.answer // 4, size.answer),
            )
            for _ in range(size.rounds * concurrency)
        ]
    return Work(line, concurrency, tuple(requests))
