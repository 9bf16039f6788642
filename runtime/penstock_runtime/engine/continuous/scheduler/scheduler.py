"""Which sequences run in the next step: a `engine.continuous.interfaces.Scheduler`, without a clock or a tensor.

A plan is made in four passes. *Yield*: a lowered cap with Evict takes the places of those whom the discipline
would serve last. *Admit*: the head of the line gets a place while there is one, tokens and blocks for it, or
while it may take somebody's. *Decode*: each running sequence gets its next token; where no block is left,
somebody behind it yields, or it stalls for this step. *Prefill*: what is left of the step's tokens goes to
prompts, the best first, in chunks. Only the head of the line is ever looked at.
"""

from collections.abc import Container, Iterable

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    Lowering,
    Preemption,
)
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.scheduler import mlfq
from penstock_runtime.engine.continuous.scheduler import preemption as victims
from penstock_runtime.engine.continuous.scheduler.kv_cache_manager import KvCacheManager
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts
from penstock_runtime.engine.continuous.scheduler.rank_bound import RankBound
from penstock_runtime.engine.continuous.scheduler.sequence_groups import SequenceGroups
from penstock_runtime.engine.continuous.scheduler.slot import SequenceState
from penstock_runtime.engine.continuous.scheduler.waiting_line import WaitQueue
from penstock_runtime.engine.continuous.sequence import Sequence, TokenRef
from penstock_runtime.engine.continuous.step_plan import Idle, Row, StepPlan
from penstock_runtime.engine.queue.heap import LazyHeap


class TokenScheduler:
    """Owns the line, the running sequences and their memory."""

    def __init__(
        self,
        info: GenerationInfo,
        limits: GenerationLimits,
        costs: PreemptionCosts | None = None,
    ) -> None:
        self.costs = costs or PreemptionCosts(info.prefill_token_seconds, info.copied_block_seconds)
        self.memory = KvCacheManager(info)
        self._most_running = info.cap_bound
        self._limits = limits
        self._planned_generation = limits.generation
        self._line = WaitQueue(limits.discipline, sliced=_sliced(limits))
        self._slots: dict[int, SequenceState] = {}
        self._running: dict[int, SequenceState] = {}
        self._filling: dict[int, SequenceState] = {}
        """Of those that run: whose next row is a chunk of what is known."""
        self._ceiling = RankBound()
        self._families = SequenceGroups()
        self._deadlines: LazyHeap[float, int] = LazyHeap()
        self._added = 0
        self._plans = 0
        self._preemptions = 0
        self._recomputed_tokens = 0

    # -- what the engine tells

    def add(self, sequence: Sequence, now: float) -> None:  # noqa: ARG002  the protocol's
        """As `Scheduler.add`; a later choice of a request waits for the first one's prompt."""
        slot = SequenceState(sequence, self._added, self.memory.chain(sequence.request.salt))
        self._added += 1
        self._slots[sequence.uid] = slot
        if sequence.request.deadline is not None:
            self._deadlines.put(sequence.uid, sequence.request.deadline)
        mlfq.join(slot)
        if not self._families.join(slot):
            self._line.add(slot)

    def remove(self, sequence: Sequence) -> None:
        """As `Scheduler.remove`; what was never added is ignored."""
        slot = self._slots.pop(sequence.uid, None)
        if slot is None:
            return
        self._deadlines.discard(sequence.uid)
        self._running.pop(sequence.uid, None)
        self._filling.pop(sequence.uid, None)
        self._line.discard(slot)
        self.memory.give_up(slot)
        for follower in self._families.leave(slot):
            self._line.add(follower)

    def settle(
        self, plan: StepPlan, failed: Container[int] = (), late: Container[int] = ()
    ) -> None:
        """As `Scheduler.settle`; nothing that the rows with indices `failed` computed is published."""
        self.memory.settle(plan, failed, late)
        number = plan.number
        for row in plan.rows:
            unknown = row.sequence.placeholder
            if unknown is not None and unknown.step == number:
                row.sequence.placeholder = None
        if self._families.anyone_held:
            for row in plan.rows:
                for follower in self._families.released(row.sequence):
                    self._line.add(follower)

    def set_limits(self, limits: GenerationLimits, now: float) -> None:  # noqa: ARG002  the protocol's
        """As `Scheduler.set_limits`."""
        self._limits = limits
        self._line.change(limits.discipline, sliced=_sliced(limits))

    def expired(self, now: float) -> Iterable[Sequence]:
        """As `Scheduler.expired`; each is returned once."""
        overdue = []
        while (head := self._deadlines.head()) is not None and head[0] <= now:
            overdue.append(self._slots[self._deadlines.pop()].sequence)
        return overdue

    def waiting_in_order(self) -> list[Sequence]:
        """As `Scheduler.waiting_in_order`; held choices come last."""
        slots = [*self._line.in_order(), *self._families.held()]
        return [slot.sequence for slot in slots]

    def report(self) -> SchedulerReport:
        """As `Scheduler.report`."""
        ledger, surplus = self.memory.ledger, max(0, len(self._running) - self.cap)
        waiting = len(self._slots) - len(self._running)
        return SchedulerReport(
            waiting=waiting,
            running=len(self._running),
            running_requests=self._running_requests(),
            preempted=self._line.preempted,
            generation=self._planned_generation,
            converging=surplus > 0,
            surplus=surplus,
            free_blocks=ledger.free,
            cached_blocks=ledger.cached,
            used_blocks=ledger.used + ledger.copying,
            preemptions=self._preemptions,
            recomputed_tokens=self._recomputed_tokens,
            swapped_blocks=self.memory.swapped_blocks,
            prefix_hit_tokens=self.memory.prefix.hit,
            prefix_asked_tokens=self.memory.prefix.asked,
        )

    def _running_requests(self) -> int:
        if self._families.count == len(self._slots):  # every request has one choice
            return len(self._running)
        return len({slot.sequence.request.id for slot in self._running.values()})

    @property
    def cap(self) -> int:
        """Return how many sequences may run: the limit, or the bound of memory and graphs."""
        return min(self._limits.max_batch_size, self._most_running)

    # -- planning

    def plan(self, now: float) -> StepPlan | Idle:
        """As `Scheduler.plan`."""
        self._planned_generation = self._limits.generation
        while True:
            draft = _Draft(
                StepPlan(self._plans, []), max(self._limits.max_batched_tokens, self.cap)
            )
            flight, before = self.memory.begin(draft.plan), self._preemptions
            self._evict(draft)
            self._admit(draft, now)
            if draft.awaits and draft.empty and self._preemptions > before:
                self.memory.withdraw()  # in the plan after that end it has its first chunk
                return Idle(self._next_deadline())
            self._decode(draft)
            self._prefill(draft)
            if not draft.empty:
                flight.slots = draft.slots
                self._plans += 1
                self._charge(draft.plan)
                return draft.plan
            self.memory.withdraw()
            if self.memory.flights:
                return Idle(self._next_deadline())  # their end brings blocks and tokens
            if self._preemptions > before:
                continue  # who yielded has made room for another draft
            if not draft.stalled:
                return Idle(self._next_deadline())
            # nobody can go on and nothing will come back by itself: the last in order yields, immune or not
            self._preempt(victims.last(self._line, self._running.values()), None)

    def _charge(self, plan: StepPlan) -> None:
        if self._limits.discipline is not Discipline.FAIR_SHARE:
            return
        served: dict[str, int] = {}
        for row in plan.rows:
            tenant = row.sequence.request.tenant
            served[tenant] = served.get(tenant, 0) + row.count
        for tenant, positions in served.items():
            self._line.charge(tenant, positions)

    def _next_deadline(self) -> float | None:
        head = self._deadlines.head()
        return None if head is None else head[0]

    def _evict(self, draft: "_Draft") -> None:
        if self._limits.lowering is not Lowering.EVICT:
            return
        while len(self._running) > self.cap:
            self._preempt(victims.last(self._line, self._running.values()), draft.plan)

    def _admit(self, draft: "_Draft", now: float) -> None:
        """Give places to the head of the line, and to the next, as long as each gets what it needs.

        A newcomer needs a token of this step that no one who decodes will have, or that of one who yields to it.
        """
        asked, promised = sum(slot.known_left for slot in self._filling.values()), 0
        while (head := self._line.head()) is not None:
            free = draft.left - (len(self._running) - len(self._filling)) - promised
            if len(self._running) >= self.cap:
                if free < 0 or not self._take_a_place(head, draft):
                    return
            elif free <= 0 or (free <= asked and not self._beaten(head)):
                return
            spare = self._spare(head)
            if not self.memory.admit(head, draft.plan, self._families.sibling(head), spare):
                if not self._take_blocks(head, draft, spare):
                    return
                continue
            self._start(head, now)
            if head.fills:
                promised += head.known_left

    def _spare(self, arrival: SequenceState) -> int:
        """Return the blocks that running sequences will soon need: a newcomer must leave them."""
        running, memory = len(self._running), self.memory
        spare = max(running, memory.ledger.total // 100) if running else 0
        if memory.ledger.available - memory.needed(arrival) >= spare:
            return spare
        growth = sum(memory.growth(slot) > 0 for slot in self._running.values())
        return max(growth, memory.ledger.total // 100) if running else 0

    def _start(self, slot: SequenceState, now: float) -> None:
        self._line.discard(slot)
        sequence = slot.sequence
        self._running[sequence.uid] = slot
        self._ceiling.started()
        if slot.fills:
            self._filling[sequence.uid] = slot
        slot.ran = 0
        if sequence.stats.first_step_at is None:
            sequence.stats.first_step_at = now
            sequence.stats.cached_tokens = min(sequence.computed, sequence.request.prompt_tokens)
        elif sequence.stats.preemptions:
            self._recomputed_tokens += max(0, slot.lost - sequence.computed)

    def _beaten(self, arrival: SequenceState) -> list[SequenceState]:
        preemption, running = self._limits.preemption, self._running.values()
        by_rank = preemption is Preemption.LOWER_PRIORITY
        if by_rank and not self._ceiling.beats(self._line, arrival, running):
            return []
        return victims.beaten(self._line, preemption, arrival, running)

    def _take_a_place(self, arrival: SequenceState, draft: "_Draft") -> bool:
        if len(self._running) > self.cap:
            return False  # a lowered cap is being finished down to
        beaten = self._beaten(arrival)
        if not beaten or self._missing(arrival, 0) > sum(len(slot.blocks) for slot in beaten):
            return False
        self._preempt(victims.choose(self._line, self.memory.ledger, beaten), draft.plan)
        return True

    def _missing(self, arrival: SequenceState, spare: int) -> int:
        """Return the blocks that `arrival` lacks although all that is coming back has come."""
        coming = self.memory.ledger.available + self.memory.pending
        return self.memory.needed(arrival) + spare - coming

    def _take_blocks(self, arrival: SequenceState, draft: "_Draft", spare: int) -> bool:
        """Preempt for the blocks that `arrival` lacks; return whether it may be tried again in this plan."""
        missing = self._missing(arrival, spare)
        if missing <= 0:
            draft.awaits = True  # they come back when a step in flight settles
            return False
        beaten = [slot for slot in self._beaten(arrival) if slot.blocks]
        if missing > sum(len(slot.blocks) for slot in beaten):
            return False
        self._preempt(victims.choose(self._line, self.memory.ledger, beaten), draft.plan)
        return True

    def _decode(self, draft: "_Draft") -> None:
        """Plan one token for each running sequence that has only that to feed."""
        slots = list(self._running.values())
        if self.memory.ledger.available < len(slots):
            slots.sort(key=self._line.key)  # blocks may not do for all: the best first
        size = self.memory.ledger.block_tokens
        for slot in slots:
            sequence = slot.sequence
            known, waits = len(sequence.ids), sequence.placeholder is not None
            left, length = known - sequence.computed, known + waits
            if not (left == 1 or (waits and left == 0)) or length >= sequence.full_length:
                continue
            if sequence.finished is not None or sequence.uid not in self._running:
                continue  # it yielded to one before it
            if len(slot.blocks) * size < length and not self._make_room(slot, draft):
                draft.stalled += 1
            elif draft.left > 0:
                self._feed(slot, 1, draft)

    def _make_room(self, slot: SequenceState, draft: "_Draft") -> bool:
        """Let somebody behind `slot` yield, unless enough comes back anyway; return whether it has its block."""
        while not self.memory.grow(slot):
            if self.memory.pending > draft.stalled:
                return False
            others = [
                one for one in self._running.values() if one is not slot and not draft.has(one)
            ]
            behind = victims.behind(self._line, slot, others)
            if not behind:
                return False
            self._preempt(victims.choose(self._line, self.memory.ledger, behind), draft.plan)
        return True

    def _prefill(self, draft: "_Draft") -> None:
        for slot in sorted(self._filling.values(), key=self._line.key):
            if draft.left <= 0:
                return
            if slot.sequence.finished is None:
                self._feed(slot, min(draft.left, slot.known_left), draft)
                if not slot.fills:
                    del self._filling[slot.sequence.uid]

    def _feed(self, slot: SequenceState, count: int, draft: "_Draft") -> None:
        sequence, plan, start = slot.sequence, draft.plan, slot.sequence.computed
        known, unknown, rows = len(sequence.ids), sequence.placeholder, plan.rows
        end = sequence.computed = start + count
        samples = end == known + (unknown is not None)
        if samples:
            sequence.placeholder = TokenRef(plan.number, len(rows))
        scoring = sequence.prompt_scoring
        scores = 0 if scoring is None else scoring.within(start, count)
        fed = unknown if start == known else None
        rows.append(Row(sequence, start, count, slot.blocks, samples, fed, scores))
        draft.slots.append(slot)
        draft.left -= count
        slot.last_plan = plan.number
        mlfq.note(slot, count)

    def _preempt(self, slot: SequenceState, plan: StepPlan | None) -> None:
        """Take a running sequence's place and memory: swapped out within `plan`, or to be computed again."""
        sequence, ledger = slot.sequence, self.memory.ledger
        del self._running[sequence.uid]
        self._filling.pop(sequence.uid, None)
        sequence.stats.preemptions += 1
        self._preemptions += 1
        slot.lost = sequence.computed
        lost_tokens = ledger.lost_if_released(slot.blocks) * ledger.block_tokens
        blocks = ledger.blocks_for(sequence.computed)
        swap = plan is not None and self.costs.swap_is_cheaper(lost_tokens, blocks)
        if not (swap and plan is not None and self.memory.swap_out(slot, plan)):
            self.memory.give_up(slot)
            sequence.computed = 0
        self._line.add(slot)


class _Draft:
    """A plan in the making."""

    __slots__ = ("awaits", "left", "plan", "slots", "stalled")

    def __init__(self, plan: StepPlan, tokens: int) -> None:
        self.plan = plan
        self.left = tokens
        self.slots: list[SequenceState] = []
        self.stalled = 0
        self.awaits = False
        """Whether the head of the line lacks nothing but blocks that a step in flight names."""

    @property
    def empty(self) -> bool:
        plan = self.plan
        return not (plan.rows or plan.swap_out or plan.swap_in or plan.copies)

    def has(self, slot: SequenceState) -> bool:
        """Return whether `plan` has a row for `slot`."""
        return slot.last_plan == self.plan.number and bool(self.slots)


def _sliced(limits: GenerationLimits) -> bool:
    return limits.preemption is Preemption.TIME_SLICE
