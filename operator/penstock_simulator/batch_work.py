"""Batch work of a run: lines that wait for free places, the batch that expires first in front, and replicas for them. Pure.

The operator's own `batch_step` plans the replicas. The batch service has at most `max_in_flight` lines at the pool, of which
half run and half wait for the next batch; lines take only the places of a batch that requests leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.scaling.batch_work import batch_step
from penstock_operator.decide.scaling.law import Decision, Law, LawInput
from penstock_operator.observed import BatchLoad
from penstock_simulator.scenario import EPOCH, LineBatch

MAX_IN_FLIGHT: Final = 256
"""Lines at one pool, as `PENSTOCK_MAX_IN_FLIGHT` of the batch service has it by default."""


@dataclass(slots=True)
class _Progress:
    batch: LineBatch
    left: int
    """Lines that no pod has taken."""
    answered: int = 0
    """Lines that were answered before the batch expired."""
    ended: float = inf
    """End of the last line, once all have been answered in time."""


@dataclass(slots=True)
class Backlog:
    """The lines of a run that no pod has taken; shared by its pods."""

    batches: Sequence[LineBatch]
    max_in_flight: int = MAX_IN_FLIGHT
    ready: int = 1
    """Ready pods, which share the lines in flight."""
    _progress: list[_Progress] = field(default_factory=list)

    def __post_init__(self) -> None:
        by_expiry = sorted(self.batches, key=lambda batch: batch.expires)
        self._progress = [_Progress(batch, batch.lines) for batch in by_expiry]

    def available(self, room: int, now: float) -> int:
        """Return how many lines fit into `room` places of a pod's next batch."""
        room = min(room, max(1, self.max_in_flight // (2 * max(self.ready, 1))))
        lines = 0
        for progress in self._open(now):
            lines += progress.left
            if lines >= room:
                return room
        return lines

    def take(self, lines: int, start: float, end: float) -> None:
        """Serve `lines` from `start` to `end`; what ends after its batch expired is not answered."""
        for progress in self._open(start):
            taken = min(progress.left, lines)
            progress.left -= taken
            lines -= taken
            if end <= progress.batch.expires:
                progress.answered += taken
                if progress.answered == progress.batch.lines:
                    progress.ended = end
            if not lines:
                return

    def opens(self, now: float) -> float:
        """Return when the next batch is submitted, or `now` if lines wait already."""
        if any(True for _ in self._open(now)):
            return now
        times = [each.batch.submitted for each in self._progress if each.batch.submitted > now]
        return min(times, default=inf)

    def loads(self, now: float) -> tuple[BatchLoad, ...]:
        """Return the batches in progress, as the operator reads them from the batch service."""
        return tuple(
            BatchLoad(
                progress.batch.lines - progress.answered,
                EPOCH + progress.batch.submitted,
                EPOCH + progress.batch.expires,
            )
            for progress in self._progress
            if progress.batch.submitted <= now < min(progress.batch.expires, progress.ended)
        )

    def unfinished(self, now: float) -> bool:
        """Return whether a batch that has lines left has not expired."""
        return now < max((each.batch.expires for each in self._progress if each.left), default=-inf)

    def results(self) -> list[tuple[LineBatch, int, float]]:
        """Return each batch with its answered lines and the time at which it was complete (infinite: never)."""
        return [(each.batch, each.answered, each.ended) for each in self._progress]

    def _open(self, now: float) -> list[_Progress]:
        return [
            each
            for each in self._progress
            if each.left and each.batch.submitted <= now < each.batch.expires
        ]


class LawWithBatchWork:
    """A law with the operator's step for batch work after it."""

    def __init__(self, law: Law[Any], spec: BatchWorkSpec, backlog: Backlog) -> None:
        self.name = law.name
        self._law = law
        self._spec = spec
        self._backlog = backlog

    def initial(self, now: float) -> Any:
        """Return the initial state of the law."""
        return self._law.initial(now)

    def step(self, state: Any, observed: LawInput, now: float) -> tuple[Any, Decision]:
        """Return the law's step with the replicas that batch work adds."""
        state, decision = self._law.step(state, observed, now)
        loads = self._backlog.loads(now - EPOCH)
        return state, batch_step(decision, self._spec, observed.settings, loads, now)
