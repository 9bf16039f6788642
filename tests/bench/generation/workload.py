"""What every peer is given: prompts of random ids and how long each answer is. Standard library only."""

import random
from dataclasses import dataclass

CONCURRENCY = (1, 8, 32)
LINES = ("prefill", "decode", "mixed")
SEED = 20261121


@dataclass(frozen=True)
class Ask:
    """One request: ids in, and exactly so many tokens out (no stop ids)."""

    prompt: tuple[int, ...]
    answer: int


@dataclass(frozen=True)
class Work:
    """Requests that are all there at once, of which `concurrency` may run together."""

    line: str
    concurrency: int
    asks: tuple[Ask, ...]

    @property
    def counted(self) -> int:
        """Return the tokens that the line counts: those of prompts for prefill, of answers else."""
        if self.line == "prefill":
            return sum(len(ask.prompt) for ask in self.asks)
        return sum(ask.answer for ask in self.asks)


@dataclass(frozen=True)
class WorkSize:
    """How much work there is."""

    prompt: int
    answer: int
    rounds: int
    """Requests for each place, in the mixed line."""
    repeats: int
    """The best of so many counts: noise only ever slows."""


WHOLE = WorkSize(prompt=256, answer=96, rounds=3, repeats=3)
QUICK = WorkSize(prompt=128, answer=32, rounds=2, repeats=1)


def work(line: str, concurrency: int, vocabulary: int, size: WorkSize) -> Work:
    """Return the work of one line: equal for every peer, and each prompt unlike every other."""
    chance = random.Random(f"{SEED} {line} {concurrency}")  # noqa: S311 - no secret

    def ask(prompt: int, answer: int) -> Ask:
        return Ask(tuple(chance.randrange(vocabulary) for _ in range(prompt)), answer)

    if line == "prefill":
        asks = [ask(size.prompt, 1) for _ in range(max(4, concurrency))]
    elif line == "decode":
        asks = [ask(8, size.answer) for _ in range(concurrency)]
    else:
        asks = [
            ask(
                chance.randint(size.prompt // 8, size.prompt // 2),
                chance.randint(size.answer // 4, size.answer),
            )
            for _ in range(size.rounds * concurrency)
        ]
    return Work(line, concurrency, tuple(asks))
