"""`TokenScheduler`: the sequences of a generation engine from `add` to `remove`; `StepPlanner` builds its plans."""

from collections.abc import Container, Iterable

from typing_extensions import override

from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    Preemption,
)
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.scheduler import mlfq
from penstock_runtime.engine.continuous.scheduler.kv_cache_manager import KvCacheManager
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts, Preemptor
from penstock_runtime.engine.continuous.scheduler.running_set import RunningSet
from penstock_runtime.engine.continuous.scheduler.sequence_groups import SequenceGroups
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.scheduler.slot_admission import SlotAdmission
from penstock_runtime.engine.continuous.scheduler.step_planner import StepPlanner
from penstock_runtime.engine.continuous.scheduler.wait_queue import WaitQueue
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.steps.interfaces import Scheduler
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan
from penstock_runtime.engine.queue.disciplines import is_batch_work
from penstock_runtime.engine.queue.heap import LazyHeap


class TokenScheduler(Scheduler):
    """Owns all sequences, their deadlines and groups, and the totals of its report."""

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
        self._planner = StepPlanner(
            self._queue, self._running, self.kv, self._preemptor, self._admission
        )
        self._planner.generation = limits.generation
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
        self._planner.set_limits(limits, min(limits.max_batch_size, self._cap_bound))

    @property
    @override
    def cap(self) -> int:
        return self._planner.cap

    @override
    def report(self) -> SchedulerReport:
        blocks, running = self.kv.blocks, len(self._running)
        surplus = max(0, running - self.cap)
        requests, batch_work = self._running_requests()
        return SchedulerReport(
            waiting=len(self._states) - running,
            running=running,
            running_requests=requests,
            running_batch_work=batch_work,
            preempted=self._queue.preempted,
            generation=self._planner.generation,
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

    def _running_requests(self) -> tuple[int, int]:
        """Return how many requests run, and how many of them are batch work."""
        running = self._running
        if self._groups.count == len(self._states):  # every request has one choice
            return len(running), running.batch_work
        requests = {state.sequence.request.id: state.priority for state in running.states()}
        return len(requests), sum(map(is_batch_work, requests.values()))

    @override
    def plan(self, now: float) -> StepPlan | Idle:
        plan = self._planner.plan(now)
        return Idle(self._next_deadline()) if plan is None else plan

    def _next_deadline(self) -> float | None:
        head = self._deadlines.head()
        return None if head is None else head[0]


def _time_sliced(limits: GenerationLimits) -> bool:
    return limits.preemption is Preemption.TIME_SLICE
