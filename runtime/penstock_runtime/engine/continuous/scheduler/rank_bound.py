"""No running sequence ranks worse than this: lets most steps pass over a full house without looking at anybody.

A rank is the discipline's key, the greater the later served. While a sequence runs its rank stands still, or falls as its work
does, so the worst of an earlier look is a bound until somebody starts. FairShare's ranks rise; it has no bound.
"""

import math
from collections.abc import Iterable

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.continuous.scheduler.waiting_line import WaitQueue


class RankBound:
    """A bound on the ranks of those that run, under one discipline at a time."""

    def __init__(self) -> None:
        self._discipline: Discipline | None = None
        self._worst = math.inf

    def started(self) -> None:
        """Somebody began to run: what is known is known no longer."""
        self._worst = math.inf

    def beats(
        self, line: WaitQueue, arrival: SequenceState, running: Iterable[SequenceState]
    ) -> bool:
        """Return whether `arrival` may rank before any of `running`; looks at them only where the bound does not tell."""
        if line.discipline is Discipline.FAIR_SHARE:
            return True
        bar = line.rank(arrival)
        if self._discipline is line.discipline and bar >= self._worst:
            return False
        self._discipline = line.discipline
        self._worst = max(map(line.rank, running), default=-math.inf)
        return bar < self._worst
