"""`GenerationServiceCurve`: sums over settled steps of x = (1, p/256, d, k/4096, t).

p are prefill tokens, d decode rows, k KV tokens read, t device seconds. The 15 products of the upper triangle suffice
for any least-squares fit of t on (1, p, d, k). Steps with captures or swaps do not count. The steps timed at load are
the first epoch, so that a fit covers shapes that no request has used yet.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from penstock_runtime.engine.continuous.limits import TimedStep

PREFILL_UNIT = 256.0
KV_UNIT = 4096.0
EPOCH_STEPS = 2**16
"""Steps per epoch: new sums keep float64 exact enough and forget old load; the last complete epoch is kept."""
TERMS = 5
PRODUCTS = TERMS * (TERMS + 1) // 2


@dataclass(frozen=True, slots=True)
class GenerationSums:
    """The sums of one epoch: row by row of the upper triangle of sum(x x^T), 15 values."""

    epoch: int
    sums: tuple[float, ...]


class GenerationServiceCurve:
    """Running sums; float64. Epoch 0 is the warm-up's."""

    def __init__(self, warm_up: Iterable[TimedStep] = ()) -> None:
        self._epoch = 0
        self._sums = [0.0] * PRODUCTS
        self._previous: GenerationSums | None = None
        for step in warm_up:
            self.note(step.prefill_tokens, step.decode_rows, step.kv_tokens, step.seconds)
        self._start_epoch()

    def note(self, prefill_tokens: int, decode_rows: int, kv_tokens: int, seconds: float) -> None:
        """Add one completed step."""
        if self._sums[0] >= EPOCH_STEPS:
            self._start_epoch()
        x = (1.0, prefill_tokens / PREFILL_UNIT, float(decode_rows), kv_tokens / KV_UNIT, seconds)
        at = 0
        for row in range(TERMS):
            for column in range(row, TERMS):
                self._sums[at] += x[row] * x[column]
                at += 1

    def _start_epoch(self) -> None:
        self._previous = self.sums()
        self._epoch += 1
        self._sums = [0.0] * PRODUCTS

    def sums(self) -> GenerationSums:
        """Return the running epoch's sums."""
        return GenerationSums(self._epoch, tuple(self._sums))

    def previous(self) -> GenerationSums | None:
        """Return the sums of the last complete epoch, if there is one."""
        return self._previous

    def mean_seconds(self) -> float:
        """Return the mean duration of the steps of the running epoch, 0 before the first."""
        return self._sums[4] / self._sums[0] if self._sums[0] else 0.0

    def mean_tokens(self) -> float:
        """Return the mean tokens per step, at least 1."""
        if not self._sums[0]:
            return 1.0
        return max(1.0, (self._sums[1] * PREFILL_UNIT + self._sums[2]) / self._sums[0])
