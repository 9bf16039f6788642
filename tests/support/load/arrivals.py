"""Seeded open-loop arrival times. Times are in seconds, rates in requests per second."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Process(StrEnum):
    """Distribution of the gaps between arrivals."""

    POISSON = "poisson"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Step:
    """A rate and its duration."""

    rate: float
    seconds: float


def parse_schedule(text: str) -> tuple[Step, ...]:
    """Return the steps of `RATExSECONDS,...`, such as `20x30,150x60`.

    Raises:
        ValueError: a part is not two non-negative numbers joined by `x`.
    """
    return tuple(_parse_step(part) for part in text.split(","))


def _parse_step(part: str) -> Step:
    rate, separator, seconds = part.partition("x")
    try:
        step = Step(float(rate), float(seconds))
    except ValueError:
        step = Step(-1, -1)
    if not separator or step.rate < 0 or step.seconds < 0:
        raise ValueError(f"schedule part {part!r} must be RATExSECONDS, such as 150x60")
    return step


class Arrivals:
    """Arrival process whose rate may change at any time.

    The process runs on its own clock with a mean of one arrival per unit, and the rate is the speed of that clock.
    A change of rate therefore applies at once, even within a gap, and a Poisson process stays Poisson.
    """

    def __init__(self, process: Process, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - reproducible traffic, no secret
        self._process = process
        self._left = self._gap()

    def between(self, begin: float, end: float, rate: float) -> Iterator[float]:
        """Yield the intended times in (begin, end] at `rate`; consecutive calls must cover adjacent intervals."""
        clock = begin
        while (end - clock) * rate >= self._left:
            clock += self._left / rate
            self._left = self._gap()
            yield clock
        self._left -= (end - clock) * rate

    def wait(self, rate: float) -> float:
        """Return the seconds until the next arrival at the present rate."""
        return self._left / rate if rate > 0 else float("inf")

    def _gap(self) -> float:
        return 1.0 if self._process is Process.CONSTANT else self._random.expovariate(1.0)
