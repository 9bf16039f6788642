"""When requests are meant to leave: an open-loop schedule, pure and seeded. Times are seconds, rates per second."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Process(StrEnum):
    """How gaps between arrivals are drawn."""

    POISSON = "poisson"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True)
class Step:
    """One rate for a while."""

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
    """Arrivals under a rate that may change at any moment.

    The process runs in its own time, one arrival a unit on the mean; a rate says how fast that time passes.
    So a change of rate takes hold at once, also in the middle of a gap, and Poisson stays Poisson.
    """

    def __init__(self, process: Process, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - reproducible traffic, no secret
        self._process = process
        self._left = self._gap()

    def between(self, begin: float, end: float, rate: float) -> Iterator[float]:
        """Yield the intended times in (begin, end] under `rate`; call with touching intervals."""
        clock = begin
        while (end - clock) * rate >= self._left:
            clock += self._left / rate
            self._left = self._gap()
            yield clock
        self._left -= (end - clock) * rate

    def wait(self, rate: float) -> float:
        """Return the seconds until the next arrival if the rate stays."""
        return self._left / rate if rate > 0 else float("inf")

    def _gap(self) -> float:
        return 1.0 if self._process is Process.CONSTANT else self._random.expovariate(1.0)
