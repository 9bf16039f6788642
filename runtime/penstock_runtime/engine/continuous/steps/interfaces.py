"""The interfaces of the generation engine: the scheduler that it plans with and the executor that runs its plans.

The scheduler reads no clock: `now` is an argument. The engine and its loop use a model only through `StepExecutor`.
"""

from collections.abc import Callable, Container, Iterable
from collections.abc import Sequence as Items
from typing import Protocol

from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan, StepResult


class Scheduler(Protocol):
    """Chooses the sequences and blocks of the next step; it interprets no tokens and ends no request."""

    @property
    def cap(self) -> int:
        """Return how many sequences may run: the limit, or the bound of memory and graphs."""

    def add(self, sequence: Sequence, now: float) -> None:
        """Queue a new sequence; a later choice of a request waits for the prompt of the first."""

    def remove(self, sequence: Sequence) -> None:
        """Remove a sequence that finished, failed, expired or was cancelled; an unknown one is ignored.

        Its blocks are released once no plan in flight names them; full blocks stay in the prefix cache.
        """

    def plan(self, now: float) -> StepPlan | Idle:
        """Return the next step, as if the plans in flight had run; advances `computed` and `placeholder`.

        A sequence `at_last_token` gets no row. The first row of a sequence sets `first_step_at`.
        """

    def settle(
        self, plan: StepPlan, failed: Container[int] = (), late: Container[int] = ()
    ) -> None:
        """Record that the step has run: its tokens are in `ids`, and sequences that ended are removed.

        Clears the placeholders of this plan, publishes full blocks to the prefix cache and carries out the
        releases that wait for this step. Called for every plan, in order of number, before the next is planned.
        Blocks of a sequence are not published from its first `failed` row on (all rows, if the whole plan failed). The
        last known position of `late` rows, which have no token yet, will be computed again.
        """

    def set_limits(self, limits: GenerationLimits, now: float) -> None:
        """Apply `limits` from the next plan on."""

    def expired(self, now: float) -> Iterable[Sequence]:
        """Return each waiting or running sequence once when its deadline has passed; the engine removes them."""

    def waiting_in_order(self) -> Items[Sequence]:
        """Return the waiting sequences, the next first and blocked choices last; called once per drain."""

    def report(self) -> SchedulerReport:
        """Return the current counts and totals."""


class StepExecutor(Protocol):
    """Runs plans one after the other, in order of number."""

    info: GenerationInfo

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        """Run `plan`. `inputs` is called once the forward pass is under way, and may block.

        Raises:
            OutOfMemory: the step did not fit.
            DeviceLost: no further step can run.
        """
