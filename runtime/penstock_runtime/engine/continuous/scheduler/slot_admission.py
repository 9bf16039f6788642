"""`SlotAdmission`: admits waiting sequences to slots; each needs a slot, tokens of the step and all of its blocks."""

from collections.abc import Iterable

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import Preemption
from penstock_runtime.engine.continuous.scheduler.kv_cache_manager import KvCacheManager
from penstock_runtime.engine.continuous.scheduler.plan_draft import PlanDraft
from penstock_runtime.engine.continuous.scheduler.preemption import Preemptor
from penstock_runtime.engine.continuous.scheduler.running_set import RunningSet
from penstock_runtime.engine.continuous.scheduler.sequence_groups import SequenceGroups
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.scheduler.wait_queue import WaitQueue


class SlotAdmission:
    """Moves the head of the wait queue into the running set, preempting where the mode allows it."""

    def __init__(
        self,
        queue: WaitQueue,
        running: RunningSet,
        kv: KvCacheManager,
        groups: SequenceGroups,
        preemptor: Preemptor,
    ) -> None:
        self._queue = queue
        self._running = running
        self._kv = kv
        self._groups = groups
        self._preemptor = preemptor
        self.cap = 0
        """Slots."""
        self.mode = Preemption.NEVER
        self.recomputed_tokens = 0
        """Positions computed again after preemptions, since the start."""

    def admit(self, draft: PlanDraft, now: float) -> None:
        """Admit the head of the queue, then the next, until one lacks a slot, tokens or blocks.

        A sequence needs a token of this step's budget that neither a decoding sequence nor a prompt ranked before
        it uses, or its victim's token.
        """
        running, prefilling = self._running.by_uid, self._running.prefilling
        begun = tuple(prefilling.values())
        unfed, promised = sum(state.unfed for state in begun), 0
        while (head := self._queue.head()) is not None:
            free = draft.tokens_left - (len(running) - len(prefilling)) - promised
            if len(running) >= self.cap:
                if free < 0 or not self._preempt_for_slot(head, draft):
                    return
            elif free <= unfed and free <= self._unfed_before(head, begun):
                return
            reserve = self._reserve(head)
            if not self._kv.admit(head, draft.plan, self._groups.sibling(head), reserve):
                if not self._preempt_for_blocks(head, draft, reserve):
                    return
                continue
            self._start(head, now)
            if head.prefills:
                promised += head.unfed

    def _unfed_before(self, arrival: SequenceState, prefilling: Iterable[SequenceState]) -> int:
        """Return the positions that `prefilling` still feed before `arrival` gets a slot.

        Of prompts that rank after it, two kinds go first. Under FairShare each chunk lowers a prompt's rank, so that
        equally long prompts of many tenants would all be begun and none completed early: only a longer one is
        overtaken. Under time slicing a prompt whose turn has come is not overtaken by arrivals of earlier levels.
        """
        queue = self._queue
        fair, sliced = queue.discipline is Discipline.FAIR_SHARE, queue.time_sliced
        key, turn = queue.key(arrival), queue.turn(arrival)
        return sum(
            state.unfed
            for state in prefilling
            if queue.key(state) < key
            or (fair and state.unfed <= arrival.unfed)
            or (sliced and state.level > arrival.level and queue.turn(state) < turn)
        )

    def _candidates(self, arrival: SequenceState) -> list[SequenceState]:
        """Return the running sequences that `arrival` may preempt.

        Where it must wait for blocks under time slicing, these are only those that the queue serves after it.
        """
        candidates = self._preemptor.candidates(self.mode, arrival)
        if self.mode is not Preemption.TIME_SLICE or not self._lacks_blocks(arrival):
            return candidates
        turn = self._queue.turn
        return [state for state in candidates if turn(arrival) < turn(state)]

    def _lacks_blocks(self, arrival: SequenceState) -> bool:
        """Return whether too few blocks are available for `arrival`, in addition to those that it shares."""
        kv, sibling = self._kv, self._groups.sibling(arrival)
        return kv.blocks_to_take(arrival, sibling) + self._reserve(arrival) > kv.blocks.available

    def _reserve(self, arrival: SequenceState) -> int:
        """Return the blocks that `arrival` must leave for the growth of running sequences."""
        running, kv = len(self._running), self._kv
        if not running:
            return 0
        reserve = max(running, kv.blocks.total // 100)
        if kv.blocks.available - kv.blocks_needed(arrival) >= reserve:
            return reserve
        growth = sum(kv.blocks_lacking(state) > 0 for state in self._running.states())
        return max(growth, kv.blocks.total // 100)

    def _start(self, state: SequenceState, now: float) -> None:
        self._queue.discard(state)
        self._running.add(state)
        state.run_positions = 0
        sequence, stats = state.sequence, state.sequence.stats
        if stats.first_step_at is None:
            stats.first_step_at = now
            stats.cached_tokens = min(sequence.computed, sequence.request.prompt_tokens)
        elif stats.preemptions:
            self.recomputed_tokens += max(0, state.preempted_at - sequence.computed)

    def _preempt_for_slot(self, arrival: SequenceState, draft: PlanDraft) -> bool:
        """Preempt a running sequence for its slot; return whether one was preempted."""
        if len(self._running) > self.cap:
            return False  # the surplus over a lowered cap finishes first
        candidates = self._candidates(arrival)
        if not candidates or self._missing(arrival, 0) > self._gain(arrival, candidates):
            return False
        self._preemptor.preempt_victim(candidates, draft.plan)
        return True

    def _missing(self, arrival: SequenceState, reserve: int) -> int:
        """Return the blocks that `arrival` lacks after all plans in flight have released theirs."""
        kv, sibling = self._kv, self._groups.sibling(arrival)
        coming = kv.blocks.available + kv.in_flight.blocks
        return kv.blocks_to_take(arrival, sibling) + reserve - coming

    def _gain(self, arrival: SequenceState, candidates: Iterable[SequenceState]) -> int:
        """Return the blocks that the end of `candidates` gives `arrival`, beyond those that it shares with them."""
        shared = set(self._kv.blocks_to_share(arrival, self._groups.sibling(arrival)))
        return sum(block not in shared for state in candidates for block in state.blocks)

    def _preempt_for_blocks(self, arrival: SequenceState, draft: PlanDraft, reserve: int) -> bool:
        """Preempt for the blocks that `arrival` lacks; return whether to retry its admission in this plan."""
        missing = self._missing(arrival, reserve)
        if missing <= 0:
            draft.awaits_blocks = True
            return False
        candidates = [state for state in self._candidates(arrival) if state.blocks]
        if missing > self._gain(arrival, candidates):
            return False
        self._preemptor.preempt_victim(candidates, draft.plan)
        return True
