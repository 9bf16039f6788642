"""How long a step takes: t = a + p * prefill + d * rows + k * context, by non-negative least squares. Pure.

A warm-up's steps are summed in at a bounded weight, which is a ridge towards what they tell: where traffic moves two of
the three together, as rows and context mostly are, they say which of them costs what (Hoerl and Kennard 1970).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import StepSums

MIN_STEPS = 4.0
SINGULAR = 1e-9
"""Of a diagonal: what is added to it, and under what a pivot is none."""
Vector = tuple[float, ...]
Matrix = list[list[float]]


@dataclass(frozen=True, slots=True)
class StepTimeFit:
    """Seconds of a step, and how far steps stray from them."""

    a: float
    p: float
    """For 256 tokens of prompts."""
    d: float
    """For a row that decodes."""
    k: float
    """For 4096 tokens read."""
    sigma: float
    """The standard deviation of a step's time off the plane, in seconds."""
    r_squared: float | None
    """Which share of the variance of times it explains; None where all took as long."""
    steps: StepSums

    def seconds(self, p: float, d: float, k: float) -> float:
        """Return the time of a step, in its sums' units."""
        return self.a + self.p * p + self.d * d + self.k * k

    def predicted(self, steps: StepSums) -> float:
        """Return the time of all these steps together."""
        return self.a * steps.n + self.p * steps.p + self.d * steps.d + self.k * steps.k

    def slope_error(self, p: float, k: float) -> float:
        """Return the standard error of the time of one row more, with so much of prompts and context beside it."""
        direction = (0.0, p, 1.0, k)
        moved = solve(_gram(self.steps), direction)
        if moved is None:
            return 0.0
        variance = sum(one * other for one, other in zip(direction, moved, strict=True))
        return self.sigma * sqrt(max(variance, 0.0))


def fit(steps: StepSums) -> StepTimeFit | None:
    """Return the plane through the steps; None where they are too few."""
    if steps.n < MIN_STEPS or steps.t <= 0:
        return None
    gram, right = _gram(steps), (steps.t, steps.pt, steps.dt, steps.kt)
    best = _least_squares(gram, right)
    missed = steps.tt - sum(one * other for one, other in zip(best, right, strict=True))
    spread = steps.tt - steps.t**2 / steps.n
    explained = None if spread <= SINGULAR * steps.tt else min(max(1 - missed / spread, 0.0), 1.0)
    a, p, d, k = best
    return StepTimeFit(a, p, d, k, sqrt(max(missed, 0.0) / steps.n), explained, steps)


def _gram(steps: StepSums) -> Matrix:
    rows = [
        [steps.n, steps.p, steps.d, steps.k],
        [steps.p, steps.pp, steps.pd, steps.pk],
        [steps.d, steps.pd, steps.dd, steps.dk],
        [steps.k, steps.pk, steps.dk, steps.kk],
    ]
    for at, row in enumerate(rows):
        row[at] *= 1 + SINGULAR
    return rows


def _least_squares(gram: Matrix, right: Vector) -> Vector:
    """Return the non-negative coefficients of least error: the best of all sets of terms that may be other than 0."""
    whole = solve(gram, right)
    if whole is not None and min(whole) >= 0:
        return whole
    found = [(0.0, (0.0,) * len(right))]
    for count in range(1, len(right) + 1):
        for chosen in combinations(range(len(right)), count):
            part = solve([[gram[i][j] for j in chosen] for i in chosen], [right[i] for i in chosen])
            if part is not None and min(part) >= 0:
                gained = sum(one * right[at] for one, at in zip(part, chosen, strict=True))
                held = dict(zip(chosen, part, strict=True))
                found.append((gained, tuple(held.get(at, 0.0) for at in range(len(right)))))
    return max(found)[1]


def solve(gram: Matrix, right: Sequence[float]) -> Vector | None:
    """Return x of gram x = right, by Gauss and Jordan; None where gram is (nearly) singular. It is symmetric, at most 4 wide."""
    size = len(right)
    rows = [[*row, value] for row, value in zip(gram, right, strict=True)]
    for at in range(size):
        scale = gram[at][at]
        pivot = rows[at][at]
        if scale <= 0 or pivot <= SINGULAR * scale / 10:
            return None
        rows[at] = [value / pivot for value in rows[at]]
        for other in range(size):
            if other != at and (factor := rows[other][at]):
                rows[other] = [
                    value - factor * own for value, own in zip(rows[other], rows[at], strict=True)
                ]
    return tuple(row[-1] for row in rows)
