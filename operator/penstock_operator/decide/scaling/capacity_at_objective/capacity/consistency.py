"""Whether busy pods serve what their curve says (docs/design/control-law.md#data). Pure.

A device that is busy all the time runs batch after batch, so rows come out at b / t(b). Where they do not, batches are not all
that keeps it busy (somebody else computes on it, or the pod pauses between batches), or the curve is wrong: capacity is
then not known well, and the pool says so.
"""

from penstock_operator.decide.scaling.capacity_at_objective.capacity.model import Model
from penstock_operator.decide.scaling.signals.aggregates import Service

BUSY = 0.95
FAR = 0.10
NEAR = 0.08
"""Of the rate foretold: further off than FAR is told, until it is nearer than NEAR."""


def off_curve(before: float | None, found: Service, curve: Model) -> float | None:
    """Return by what share the rows served are off those foretold, where that is too far; None where they are not.

    `before` is what was returned last; it stands while the pods are too little busy to judge by.
    """
    sums, duty = found.sums, found.duty
    if sums is None or duty is None or duty <= BUSY or found.pod_seconds <= 0:
        return before
    seconds = curve.seconds(sums.cost_units / sums.batches)
    if not seconds:
        return before
    off = sums.batches / found.pod_seconds * seconds - 1
    return off if abs(off) > (FAR if before is None else NEAR) else None
