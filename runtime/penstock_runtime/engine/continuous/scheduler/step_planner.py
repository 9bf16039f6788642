"""`StepPlanner`: selects the rows of the next step under the limits in force; it uses no clock and no tensor.

A plan is built in four passes. *Evict*: under a lowered cap with `Evict`, the sequences that the discipline
would serve last are preempted. *Admit*: the head of the queue gets a slot while there are a slot, tokens and
blocks for it, or while it may preempt a running sequence. *Decode*: each running sequence gets its next token;
where no block is free, a lower-ranked sequence is preempted, or the sequence stalls for this step. *Prefill*:
the step's remaining tokens go to prompts in chunks, the best-ranked first. Only the head of the queue is ever
examined.
"""

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Lowering
from penstock_runtime.engine.continuous.scheduler.kv_cache_manager import KvCacheManager
from penstock_runtime.engine.continuous.scheduler.plan_draft import PlanDraft
from penstock_runtime.engine.continuous.scheduler.preemption import Preemptor, lowest_ranked_after
from penstock_runtime.engine.continuous.scheduler.running_set import RunningSet
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.scheduler.slot_admission import SlotAdmission
from penstock_runtime.engine.continuous.scheduler.wait_queue import WaitQueue
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan


class StepPlanner:
    """Builds plans from the wait queue, the running set and the KV cache."""

    def __init__(
        self,
        queue: WaitQueue,
        running: RunningSet,
        kv: KvCacheManager,
        preemptor: Preemptor,
        admission: SlotAdmission,
    ) -> None:
        self._queue = queue
        self._running = running
        self._kv = kv
        self._preemptor = preemptor
        self._admission = admission
        self._plans = 0
        self.limits: GenerationLimits
        self.cap = 0
        """Slots."""
        self.generation = 0
        """Generation of the limits that the latest plan follows."""

    def set_limits(self, limits: GenerationLimits, cap: int) -> None:
        """Follow `limits` from the next plan on, with `cap` slots."""
        self.limits, self.cap = limits, cap
        self._admission.cap, self._admission.mode = cap, limits.preemption

    def plan(self, now: float) -> StepPlan | None:
        """Return the next plan, as if the plans in flight had run; None if no sequence can run."""
        self.generation = self.limits.generation
        in_flight = self._kv.in_flight
        while True:
            draft = PlanDraft(self._plans)
            flight, preemptions = in_flight.begin(draft.plan), self._preemptor.count
            self._evict(draft)
            # the surplus over a lowered cap decodes as well
            draft.tokens_left = max(self.limits.max_batched_tokens, self.cap, len(self._running))
            self._admission.admit(draft, now)
            preempted = self._preemptor.count > preemptions
            if draft.awaits_blocks and draft.empty and preempted:
                in_flight.withdraw()  # the plan after the release has the arrival's first chunk
                return None
            self._decode(draft)
            self._prefill(draft)
            if not draft.empty:
                flight.states = draft.states
                self._plans += 1
                self._charge(draft.plan)
                return draft.plan
            in_flight.withdraw()
            if in_flight:
                return None  # blocks and tokens follow when those plans settle
            if self._preemptor.count > preemptions:
                continue  # the preemption made room for another draft
            if not draft.stalled:
                return None
            # No sequence can continue and no plan in flight will release blocks: preempt the last in
            # order, whatever its number of preemptions.
            self._preemptor.preempt_last(None)

    def _evict(self, draft: PlanDraft) -> None:
        if self.limits.lowering is not Lowering.EVICT:
            return
        while len(self._running) > self.cap:
            self._preemptor.preempt_last(draft.plan)

    def _decode(self, draft: PlanDraft) -> None:
        """Add a row of one token for each running sequence that has exactly one token to feed."""
        running, blocks = self._running.by_uid, self._kv.blocks
        states = list(running.values())
        if blocks.available < len(states):
            # blocks may not suffice for all sequences: serve the best-ranked first
            states.sort(key=self._queue.key)
        size = self._kv.spec.block_tokens
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
        while not self._kv.grow(state):
            if self._kv.in_flight.blocks > draft.stalled:
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
        if self.limits.discipline is not Discipline.FAIR_SHARE:
            return
        served: dict[str, int] = {}
        for row in plan.rows:
            tenant = row.sequence.request.tenant
            served[tenant] = served.get(tenant, 0) + row.count
        for tenant, positions in served.items():
            self._queue.charge(tenant, positions)
