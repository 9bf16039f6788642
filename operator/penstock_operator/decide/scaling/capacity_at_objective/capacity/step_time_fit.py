"""The fit of a step's time, t = a + p * prefill + d * rows + k * context, by non-negative least squares. Pure.

Warm-up steps are added at a bounded weight, which acts as a ridge: where traffic changes two of the three together, as it
usually does rows and context, the warm-up separates their costs (Hoerl and Kennard 1970).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt

from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import StepSums

MIN_STEPS = 4.0
SINGULAR = 1e-9
"""Relative regularization of the diagonal, and the limit below which a pivot counts as zero."""
Vector = tuple[float, ...]
Matrix = list[list[float]]


@dataclass(frozen=True, slots=True)
class StepTimeFit:
    """Fitted time of a step, and the noise around it."""

    a: float
    p: float
    """Seconds per 256 prefill tokens."""
    d: float
    """Seconds per decoding row."""
    k: float
    """Seconds per 4096 tokens read from the cache."""
    sigma: float
    """Standard deviation of step times around the fit, in seconds."""
    r_squared: float | None
    """Coefficient of determination; None if all steps took equally long."""
    steps: StepSums

    def seconds(self, p: float, d: float, k: float) -> float:
        """Return the time of a step in seconds; arguments in the units of the sums."""
        return self.a + self.p * p + self.d * d + self.k * k

    def predicted(self, steps: StepSums) -> float:
        """Return the predicted total time of these steps."""
        return self.a * steps.n + self.p * steps.p + self.d * steps.d + self.k * steps.k

    def slope_error(self, p: float, k: float) -> float:
        """Return the standard error of the time of one more row with its prompt and context."""
        direction = (0.0, p, 1.0, k)
        moved = solve(_gram(self.steps), direction)
        if moved is None:
            return 0.0
        variance = sum(left * other for left, other in zip(direction, moved, strict=True))
        return self.sigma * sqrt(max(variance, 0.0))


def fit(steps: StepSums) -> StepTimeFit | None:
    """Return the fit of the steps; None if they are too few."""
    if steps.n < MIN_STEPS or steps.t <= 0:
        return None
    gram, right = _gram(steps), (steps.t, steps.pt, steps.dt, steps.kt)
    best = _least_squares(gram, right)
    missed = steps.tt - sum(
        coefficient * other for coefficient, other in zip(best, right, strict=True)
    )
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
    """Return the non-negative coefficients of least error, over all subsets of nonzero terms."""
    whole = solve(gram, right)
    if whole is not None and min(whole) >= 0:
        return whole
    candidates = [(0.0, (0.0,) * len(right))]
    for count in range(1, len(right) + 1):
        for chosen in combinations(range(len(right)), count):
            part = solve([[gram[i][j] for j in chosen] for i in chosen], [right[i] for i in chosen])
            if part is not None and min(part) >= 0:
                gained = sum(
                    coefficient * right[at] for coefficient, at in zip(part, chosen, strict=True)
                )
                nonzero = dict(zip(chosen, part, strict=True))
                candidates.append((gained, tuple(nonzero.get(at, 0.0) for at in range(len(right)))))
    return max(candidates)[1]


def solve(gram: Matrix, right: Sequence[float]) -> Vector | None:
    """Solve gram x = right by Gauss-Jordan elimination; None if gram, which is symmetric and at most 4x4, is nearly singular."""
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
