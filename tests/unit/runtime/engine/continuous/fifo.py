"""The least scheduler that keeps the engine's contract: first in, first out, a fixed budget, no sharing of blocks."""

from collections.abc import Container

from penstock_runtime.engine.continuous.limits import GenerationLimits, KVSpec
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.sequence import Sequence, TokenRef
from penstock_runtime.engine.continuous.steps.step_plan import Idle, Row, StepPlan


class FifoScheduler:
    def __init__(self, kv: KVSpec, cap: int = 64, budget: int = 256) -> None:
        self.kv, self.cap, self.budget = kv, cap, budget
        self.free = list(range(kv.blocks))[::-1]
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.tables: dict[int, list[int]] = {}
        self.in_flight: dict[int, set[int]] = {}
        self.freed_when: list[tuple[int, list[int]]] = []
        self.number = 0
        self.generation = 0

    def add(self, sequence: Sequence, now: float) -> None:
        self.waiting.append(sequence)

    def remove(self, sequence: Sequence) -> None:
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        if sequence in self.running:
            self.running.remove(sequence)
            self.freed_when.append((self.number, self.tables.pop(sequence.uid)))
            self._release()

    def plan(self, now: float) -> StepPlan | Idle:
        rows: list[Row] = []
        left = self.budget
        for sequence in [*self.running, *self.waiting]:
            if not left or len(rows) >= self.cap:
                break
            if sequence.placeholder is not None and sequence.at_last_token:
                continue
            row = self._row(sequence, left)
            if row is None:
                break
            if sequence in self.waiting:
                self.waiting.remove(sequence)
                self.running.append(sequence)
                sequence.stats.first_step_at = now
            rows.append(row)
            left -= row.count
        if not rows:
            return Idle(None)
        self.number += 1
        plan = StepPlan(self.number, rows)
        for index, row in enumerate(rows):
            row.sequence.computed = row.start + row.count
            row.sequence.placeholder = TokenRef(self.number, index) if row.samples else None
        self.in_flight[self.number] = {row.sequence.uid for row in rows}
        return plan

    def _row(self, sequence: Sequence, left: int) -> Row | None:
        count = min(sequence.to_compute, left)
        table = self.tables.get(sequence.uid, [])
        needed = -(-(sequence.computed + count) // self.kv.block_tokens) - len(table)
        if needed > len(self.free):
            return None
        self.tables[sequence.uid] = table
        table.extend(self.free.pop() for _ in range(needed))
        return Row(
            sequence=sequence,
            start=sequence.computed,
            count=count,
            blocks=table,
            samples=sequence.computed + count == sequence.length,
            placeholder=sequence.placeholder if sequence.computed + 1 == sequence.length else None,
        )

    def settle(
        self, plan: StepPlan, failed: Container[int] = (), late: Container[int] = ()
    ) -> None:
        for row in plan.rows:
            placeholder = row.sequence.placeholder
            if placeholder is not None and placeholder.step == plan.number:
                row.sequence.placeholder = None
        del self.in_flight[plan.number]
        self._release()

    def _release(self) -> None:
        oldest = min(self.in_flight, default=self.number + 1)
        for number, blocks in [entry for entry in self.freed_when if entry[0] < oldest]:
            self.freed_when.remove((number, blocks))
            self.free.extend(blocks)

    def set_limits(self, limits: GenerationLimits, now: float) -> None:
        self.cap, self.budget = limits.max_batch_size, limits.max_batched_tokens
        self.generation = limits.generation

    def expired(self, now: float) -> list[Sequence]:
        live = [*self.running, *self.waiting]
        return [s for s in live if s.request.deadline is not None and s.request.deadline <= now]

    def waiting_in_order(self) -> list[Sequence]:
        return list(self.waiting)

    def report(self) -> SchedulerReport:
        used = sum(len(table) for table in self.tables.values())
        return SchedulerReport(
            waiting=len(self.waiting),
            running=len(self.running),
            running_requests=len({s.request.id for s in self.running}),
            running_batch_work=0,
            preempted=0,
            generation=self.generation,
            converging=False,
            surplus=max(0, len(self.running) - self.cap),
            free_blocks=len(self.free),
            cached_blocks=0,
            used_blocks=used,
            preemptions=0,
            recomputed_tokens=0,
            swapped_blocks=0,
            prefix_hit_tokens=0,
            prefix_asked_tokens=0,
        )
