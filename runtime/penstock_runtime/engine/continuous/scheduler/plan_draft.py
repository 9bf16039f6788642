"""`PlanDraft`: a step plan while the scheduler builds it, with its remaining token budget."""

from penstock_runtime.engine.continuous.scheduler import mlfq
from penstock_runtime.engine.continuous.scheduler.sequence_state import SequenceState
from penstock_runtime.engine.continuous.sequence import TokenRef
from penstock_runtime.engine.continuous.steps.step_plan import Row, StepPlan


class PlanDraft:
    """A plan and its remaining token budget."""

    __slots__ = ("awaits_blocks", "plan", "stalled", "states", "tokens_left")

    def __init__(self, number: int) -> None:
        self.plan = StepPlan(number, [])
        self.tokens_left = 0
        self.states: list[SequenceState] = []
        """The sequence of each row."""
        self.stalled = 0
        """Running sequences that have no block for their next token."""
        self.awaits_blocks = False
        """Whether the head of the queue lacks only blocks that a plan in flight will release."""

    @property
    def empty(self) -> bool:
        """Return whether the plan has nothing to do."""
        plan = self.plan
        return not (plan.rows or plan.swap_out or plan.swap_in or plan.copies)

    def has_row(self, state: SequenceState) -> bool:
        """Return whether the plan has a row for `state`."""
        return state.last_plan == self.plan.number and bool(self.states)

    def feed(self, state: SequenceState, count: int) -> None:
        """Add a row for the next `count` positions of `state`; advances `computed` and sets the placeholder."""
        sequence, plan, start = state.sequence, self.plan, state.sequence.computed
        known, placeholder, rows = len(sequence.ids), sequence.placeholder, plan.rows
        end = sequence.computed = start + count
        samples = end == known + (placeholder is not None)
        if samples:
            sequence.placeholder = TokenRef(plan.number, len(rows))
        scoring = sequence.prompt_scoring
        scores = 0 if scoring is None else scoring.within(start, count)
        fed = placeholder if start == known else None
        rows.append(Row(sequence, start, count, state.blocks, samples, fed, scores))
        self.states.append(state)
        self.tokens_left -= count
        state.last_plan = plan.number
        mlfq.record_positions(state, count)
