"""`FilledPod`: a pod whose batches batch work fills up. Times are seconds of the trace."""

from bisect import bisect_left, bisect_right
from math import inf

from typing_extensions import override

from penstock_simulator.batch_work import Backlog
from penstock_simulator.pods.engine import SimulatedEngine
from penstock_simulator.pods.pod import PodLimits, SimulatedPod


class FilledPod(SimulatedPod):
    """Serves requests first and lines in the places that they leave, as the runtime does by priority.

    A batch with lines begins at once, and a request that comes meanwhile waits for its end. Pods take lines one after
    another within a slice, so between pods their order is exact to a slice.
    """

    __slots__ = ("_backlog", "_looked")

    def __init__(  # noqa: PLR0913, PLR0917  a pod's own parts
        self,
        index: int,
        created: float,
        ready_at: float,
        engine: SimulatedEngine,
        limits: PodLimits,
        backlog: Backlog,
    ) -> None:
        super().__init__(index, created, ready_at, engine, limits)
        self._backlog = backlog
        self._looked = max(created, ready_at)

    @override
    def advance(self, until: float) -> None:
        """Run every batch that begins before `until`."""
        while (start := max(self.engine.free_at, self._looked)) < min(until, self.kill_at):
            if not self.accepts(start) or self._backlog.opens(start) >= until:
                break
            if not self._run(start):
                self._looked = max(self._next(start), start)
        super().advance(until)
        self._looked = max(self._looked, until)

    def _next(self, start: float) -> float:
        """Return when an idle pod has something to do."""
        arrival = self.arrivals[self.head] if self.head < len(self.arrivals) else inf
        return min(arrival, self._backlog.opens(start))

    def _run(self, start: float) -> bool:
        """Run one batch from `start`; return whether there is anything to run."""
        engine, depth = self.engine, self._limits.max_queue_depth
        oldest = start - self._limits.timeout_seconds
        after = bisect_left(self.arrivals, oldest, self.head)
        self.expired += after - self.head
        self.head = after
        upto = bisect_right(self.arrivals, start, self.head)
        if upto - self.head > depth:
            self._reject(self.head, upto)
            upto = self.head + depth
        rows = min(upto - self.head, self.cap)
        lines = self._backlog.available(self.cap - rows, start) if rows < self.cap else 0
        if not rows + lines:
            return False
        engine.run(self.head, self.head + rows, start, lines)
        self.head += rows
        if lines:
            self._backlog.take(lines, start, engine.free_at)
        return True
