"""`TokenScheduler`: selects the sequences of the next step; it uses no clock and no tensor.

A plan is built in four passes. *Evict*: under a lowered cap with `Evict`, the sequences that the discipline
would serve last are preempted. *Admit*: the head of the queue gets a slot while there are a slot, tokens and
blocks for it, or while it may preempt a running sequence. *Decode*: each running sequence gets its next token;
where no block is free, a lower-ranked sequence is preempted, or the sequence stalls for this step. *Prefill*:
the step's remaining tokens go to prompts in chunks, the best-ranked first. Only the head of the queue is ever
examined.
"""

from collections.abc import Container, Iterable

from typing_extensions import override

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    Lowering,
    Preemption,
)
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.scheduler import mlfq
from penstock_runtime.engine.continuous.scheduler.kv_cache_manager import KvCacheManager
from penstock_runtime.engine.continuous.scheduler.plan_draft import PlanDraft
from penstock_runtime.engine.continuous.scheduler.preemption import (
    PreemptionCosts,
    Preemptor,
    lowest_ranked_after,
)
from penstock_runtime.engine.continuous.scheduler.running_set import RunningSet
from penstock_runtime.engine.continuous.scheduler.sequence_groups import SequenceGroups
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.scheduler.slot_admission import SlotAdmission
from penstock_runtime.engine.continuous.scheduler.wait_queue import WaitQueue
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan
from penstock_runtime.engine.queue.heap import LazyHeap


class TokenScheduler(Scheduler):
    """Builds plans from the wait queue, the running set and the KV cache."""

    def __init__(
        self,
        info: GenerationInfo,
        limits: GenerationLimits,
        costs: PreemptionCosts | None = None,
    ) -> None:
        costs = costs or PreemptionCosts(info.prefill_token_seconds, info.copied_block_seconds)
        self.kv = KvCacheManager(info)
        self._cap_bound = info.cap_bound
        self._states: dict[int, SequenceState] = {}
        """By uid: all sequences, waiting or running."""
        self._queue = WaitQueue(limits.discipline, time_sliced=_time_sliced(limits))
        self._running = RunningSet()
        self._groups = SequenceGroups()
        self._preemptor = Preemptor(self._queue, self._running, self.kv, costs)
        self._admission = SlotAdmission(
            self._queue, self._running, self.kv, self._groups, self._preemptor
        )
        self._deadlines: LazyHeap[float, int] = LazyHeap()
        self._added = 0
        self._plans = 0
        self._planned_generation = limits.generation
        self._apply(limits)

    # -- sequences

    @override
    def add(self, sequence: Sequence, now: float) -> None:
        state = SequenceState(sequence, self._added, self.kv.hash_chain(sequence.request.salt))
        self._added += 1
        self._states[sequence.uid] = state
        if state.deadline is not None:
            self._deadlines.put(sequence.uid, state.deadline)
        mlfq.assign_level(state)
        if not self._groups.add(state):
            self._queue.add(state)

    @override
    def remove(self, sequence: Sequence) -> None:
        state = self._states.pop(sequence.uid, None)
        if state is None:
            return
        self._deadlines.discard(sequence.uid)
        self._running.discard(sequence.uid)
        self._queue.discard(state)
        self.kv.release(state)
        for sibling in self._groups.remove(state):
            self._queue.add(sibling)

    @override
    def settle(
        self, plan: StepPlan, failed: Container[int] = (), late: Container[int] = ()
    ) -> None:
        self.kv.settle(plan, failed, late)
        number = plan.number
        for row in plan.rows:
            placeholder = row.sequence.placeholder
            if placeholder is not None and placeholder.step == number:
                row.sequence.placeholder = None
        if self._groups.any_blocked:
            for row in plan.rows:
                for sibling in self._groups.unblock(row.sequence):
                    self._queue.add(sibling)

    @override
    def expired(self, now: float) -> Iterable[Sequence]:
        overdue = []
        while (head := self._deadlines.head()) is not None and head[0] <= now:
            overdue.append(self._states[self._deadlines.pop()].sequence)
        return overdue

    @override
    def waiting_in_order(self) -> list[Sequence]:
        states = [*self._queue.in_order(), *self._groups.blocked()]
        return [state.sequence for state in states]

    # -- limits and report

    @override
    def set_limits(self, limits: GenerationLimits, now: float) -> None:
        self._queue.set_discipline(limits.discipline, time_sliced=_time_sliced(limits))
        self._apply(limits)

    def _apply(self, limits: GenerationLimits) -> None:
        self._limits = limits
        self._admission.cap, self._admission.mode = self.cap, limits.preemption

    @property
    @override
    def cap(self) -> int:
        return min(self._limits.max_batch_size, self._cap_bound)

    @override
    def report(self) -> SchedulerReport:
        blocks, running = self.kv.blocks, len(self._running)
        surplus = max(0, running - self.cap)
        return SchedulerReport(
            waiting=len(self._states) - running,
            running=running,
            running_requests=self._running_requests(),
            preempted=self._queue.preempted,
            generation=self._planned_generation,
            converging=surplus > 0,
            surplus=surplus,
            free_blocks=blocks.free,
            cached_blocks=len(blocks.prefix.evictable),
            used_blocks=blocks.used + blocks.copying,
            preemptions=self._preemptor.count,
            recomputed_tokens=self._admission.recomputed_tokens,
            swapped_blocks=self.kv.swapped_blocks,
            prefix_hit_tokens=self.kv.prefix.hit,
            prefix_asked_tokens=self.kv.prefix.queried,
        )

    def _running_requests(self) -> int:
        if self._groups.count == len(self._states):  # every request has one choice
            return len(self._running)
        return len({state.sequence.request.id for state in self._running.states()})

    # -- planning

    @override
    def plan(self, now: float) -> StepPlan | Idle:
        self._planned_generation = self._limits.generation
        while True:
            draft = PlanDraft(self._plans, max(self._limits.max_batched_tokens, self.cap))
            flight, preemptions = self.kv.begin(draft.plan), self._preemptor.count
            self._evict(draft)
            self._admission.admit(draft, now)
            preempted = self._preemptor.count > preemptions
            if draft.awaits_blocks and draft.empty and preempted:
                self.kv.withdraw()  # the plan after the release has the arrival's first chunk
                return Idle(self._next_deadline())
            self._decode(draft)
            self._prefill(draft)
            if not draft.empty:
                flight.states = draft.states
                self._plans += 1
                self._charge(draft.plan)
                return draft.plan
            self.kv.withdraw()
            if self.kv.in_flight:
                return Idle(
                    self._next_deadline()
                )  # blocks and tokens follow when those plans settle
            if self._preemptor.count > preemptions:
                continue  # the preemption made room for another draft
            if not draft.stalled:
                return Idle(self._next_deadline())
            # No sequence can continue and no plan in flight will release blocks: preempt the last in
            # order, whatever its number of preemptions.
            self._preemptor.preempt_last(None)

    def _evict(self, draft: PlanDraft) -> None:
        if self._limits.lowering is not Lowering.EVICT:
            return
        while len(self._running) > self.cap:
            self._preemptor.preempt_last(draft.plan)

    def _decode(self, draft: PlanDraft) -> None:
        """Add a row of one token for each running sequence that has exactly one token to feed."""
        running, blocks = self._running.by_uid, self.kv.blocks
        states = list(running.values())
        if blocks.available < len(states):
            # blocks may not suffice for all sequences: serve the best-ranked first
            states.sort(key=self._queue.key)
        size = self.kv.spec.block_tokens
        for state in states:
            sequence = state.sequence
            known, waits = len(sequence.ids), sequence.placeholder is not None
            left, length = known - sequence.computed, known + waits
            if not (left == 1 or (waits and left == 0)) or length >= sequence.full_length:
                continue
            if sequence.finished is not None or sequence.uid not in running:
                continue  # preempted for a sequence before it
            if len(state.blocks) * size < length and not self._ensure_block(state, draft):
                draft.stalled += 1
            elif draft.tokens_left > 0:
                draft.feed(state, 1)

    def _ensure_block(self, state: SequenceState, draft: PlanDraft) -> bool:
        """Allocate the next block of `state`, preempting lower-ranked sequences; return whether it was allocated.

        Preempts nothing where plans in flight will release enough blocks.
        """
        while not self.kv.grow(state):
            if self.kv.blocks_in_flight > draft.stalled:
                return False
            others = (
                other
                for other in self._running.states()
                if other is not state and not draft.has_row(other)
            )
            candidates = lowest_ranked_after(self._queue, state, others)
            if not candidates:
                return False
            self._preemptor.preempt_victim(candidates, draft.plan)
        return True

    def _prefill(self, draft: PlanDraft) -> None:
        prefilling = self._running.prefilling
        for state in sorted(prefilling.values(), key=self._queue.key):
            if draft.tokens_left <= 0:
                return
            if state.sequence.finished is None:
                draft.feed(state, min(draft.tokens_left, state.unfed))
                if not state.prefills:
                    del prefilling[state.sequence.uid]

    def _charge(self, plan: StepPlan) -> None:
        """Charge the plan's positions to their tenants."""
        if self._limits.discipline is not Discipline.FAIR_SHARE:
            return
        served: dict[str, int] = {}
        for row in plan.rows:
            tenant = row.sequence.request.tenant
            served[tenant] = served.get(tenant, 0) + row.count
        for tenant, positions in served.items():
            self._queue.charge(tenant, positions)

    def _next_deadline(self) -> float | None:
        head = self._deadlines.head()
        return None if head is None else head[0]


def _time_sliced(limits: GenerationLimits) -> bool:
    return limits.preemption is Preemption.TIME_SLICE
