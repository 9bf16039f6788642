"""`RunningSet`: the sequences that have a slot, and a bound on their ranks that avoids most preemption scans."""

import math
from collections.abc import Collection, Iterable

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.scheduler.wait_queue import WaitQueue
from penstock_runtime.engine.queue.disciplines import is_batch_work


class RankBound:
    """Upper bound on the ranks of running sequences, under one discipline at a time.

    A rank is the discipline's key; the larger is served later. The rank of a running sequence stays constant or
    falls as its remaining work does, so the largest rank of an earlier scan is a bound until another sequence
    starts. Under FairShare ranks rise, so there is no bound.
    """

    def __init__(self) -> None:
        self._discipline: Discipline | None = None
        self._bound = math.inf

    def reset(self) -> None:
        """Drop the bound, because a sequence starts to run."""
        self._bound = math.inf

    def outranks_any(
        self, queue: WaitQueue, arrival: SequenceState, running: Iterable[SequenceState]
    ) -> bool:
        """Return whether `arrival` may rank before any of `running`, which is scanned only if the bound does not decide."""
        if queue.discipline is Discipline.FAIR_SHARE:
            return True
        rank = queue.rank(arrival)
        if self._discipline is queue.discipline and rank >= self._bound:
            return False
        self._discipline = queue.discipline
        self._bound = max(map(queue.rank, running), default=-math.inf)
        return rank < self._bound


class RunningSet:
    """Tracks which sequences run, and which of those still prefill."""

    __slots__ = ("batch_work", "by_uid", "prefilling", "rank_bound")

    def __init__(self) -> None:
        self.by_uid: dict[int, SequenceState] = {}
        self.prefilling: dict[int, SequenceState] = {}
        """By uid: running sequences whose next row is a chunk of known positions."""
        self.batch_work = 0
        """Running sequences of batch work."""
        self.rank_bound = RankBound()

    def __len__(self) -> int:
        return len(self.by_uid)

    def states(self) -> Collection[SequenceState]:
        """Return all running sequences."""
        return self.by_uid.values()

    def add(self, state: SequenceState) -> None:
        """Give a sequence a slot."""
        uid = state.sequence.uid
        self.by_uid[uid] = state
        self.batch_work += is_batch_work(state.priority)
        if state.prefills:
            self.prefilling[uid] = state
        self.rank_bound.reset()

    def discard(self, uid: int) -> None:
        """Free a sequence's slot, if it has one."""
        state = self.by_uid.pop(uid, None)
        if state is not None:
            self.batch_work -= is_batch_work(state.priority)
        self.prefilling.pop(uid, None)
