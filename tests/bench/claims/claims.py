"""The claims of the project's first documents, and how much of each a run reached. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from statistics import median
from typing import Final

ALONE, BATCHED, COMPILED, TUNED = "no batching", "dynamic batching", "compiled", "tuned"
STATIC, CONTINUOUS = "static batches", "continuous batching"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim: its words, and the ratio that reaches it."""

    text: str
    bound: float


THROUGHPUT: Final = Claim("2 to 10 times the throughput", 2.0)
USE: Final = Claim("70 to 90 % device use", 0.7)
RATE: Final = Claim("50 % more requests per second", 1.5)
COST: Final = Claim("35 % less cost", 0.65)


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of a setting."""

    requests: int
    seconds: float
    done: float
    """Rows, or generated tokens."""
    batch_size: float
    """Mean rows of a batch, or sequences of a decode step."""
    batch_milliseconds: float
    """Mean time of a batch, or of a step."""
    use: float
    """Share of the time in which a batch or a step ran, 0 to 1."""
    p50_milliseconds: float | None = None
    p99_milliseconds: float | None = None
    """Latency of requests; None: not measured."""

    @property
    def rate(self) -> float:
        """Rows, or tokens, per second."""
        return self.done / self.seconds


@dataclass(frozen=True, slots=True)
class Setting:
    """A model under one setting, with a sample of each round."""

    subject: str
    name: str
    detail: str
    """The limits and the backend."""
    samples: tuple[Sample, ...]
    unit: str = "rows/s"

    @property
    def rate(self) -> float:
        """Median rate of the rounds."""
        return median(sample.rate for sample in self.samples)

    @property
    def use(self) -> float:
        """Median use of the rounds."""
        return median(sample.use for sample in self.samples)


@dataclass(frozen=True, slots=True)
class PoolCost:
    """GPU-hours of a law and of the smallest fixed count that attains the objective, on one trace."""

    trace: str
    law_hours: float
    law_attainment: float
    law_use: float
    """Share of the GPU-hours in which a batch ran."""
    fixed_count: int
    fixed_hours: float
    fixed_attainment: float
    fixed_use: float
    target: float = 0.99
    """Attainment that the objective requires."""


@dataclass(frozen=True, slots=True)
class ClaimLine:
    """A measured ratio and the claim that it is compared with."""

    claim: Claim
    line: str
    measured: float
    low: float
    high: float
    """Range over the rounds."""

    @property
    def met(self) -> bool:
        """Whether the claim is reached."""
        return self.share >= 1.0

    @property
    def share(self) -> float:
        """How much of the claimed effect was reached: 1 is the claim, 0 no effect; a cost without the objective has none."""
        if self.claim is USE:
            return self.measured / self.claim.bound
        return (self.measured - 1.0) / (self.claim.bound - 1.0)


def judged(settings: Sequence[Setting], costs: Iterable[PoolCost]) -> list[ClaimLine]:
    """Return a line for every claim that the figures allow to judge."""
    by_subject: dict[str, dict[str, Setting]] = {}
    for setting in settings:
        by_subject.setdefault(setting.subject, {})[setting.name] = setting
    lines = [line for subject, by in by_subject.items() for line in _of_subject(subject, by)]
    return [*lines, *(line for cost in costs for line in _of_pool(cost))]


def _of_subject(subject: str, by: dict[str, Setting]) -> Iterator[ClaimLine]:
    for batched in (BATCHED, CONTINUOUS):
        if batched not in by:
            continue
        if ALONE in by:
            yield _ratio(THROUGHPUT, f"{subject}: {batched} / one at a time", by[batched], by[ALONE])  # fmt: skip
        if STATIC in by:
            yield _ratio(THROUGHPUT, f"{subject}: {batched} / {STATIC}", by[batched], by[STATIC])
        uses = [sample.use for sample in by[batched].samples]
        yield ClaimLine(USE, f"{subject}: busy under load", median(uses), min(uses), max(uses))
        for better in (COMPILED, TUNED):
            if better in by:
                words = "compilation" if better == COMPILED else "with tuning"
                yield _ratio(RATE, f"{subject}: {words} / {batched}", by[better], by[batched])


def _of_pool(cost: PoolCost) -> Iterator[ClaimLine]:
    """Yield the cost where the law or the count attains the objective, and the use where the law does: late requests keep devices busy too."""
    attains = cost.law_attainment >= cost.target
    saved = cost.law_hours / cost.fixed_hours if attains else inf
    if attains or cost.fixed_attainment >= cost.target:
        yield ClaimLine(COST, f"{cost.trace}: GPU-hours / fixed {cost.fixed_count}", saved, saved, saved)  # fmt: skip
    if attains:
        yield ClaimLine(USE, f"{cost.trace}: busy share of GPU-hours", cost.law_use, cost.law_use, cost.law_use)  # fmt: skip


def _ratio(claim: Claim, line: str, over: Setting, under: Setting) -> ClaimLine:
    """Return the median of the ratios of the same round, with their range."""
    pairs = zip(over.samples, under.samples, strict=True)
    ratios = [above.rate / below.rate for above, below in pairs if below.rate]
    return ClaimLine(claim, line, median(ratios), min(ratios), max(ratios))
