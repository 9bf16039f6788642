"""What the engine needs of a scheduler, and a scheduler of its ledger. Both are pure: `now` is an argument.

What runs plans. The engine and its loop know a model by this alone.
"""

from collections.abc import Callable, Container, Iterable
from collections.abc import Sequence as Items
from typing import Protocol

from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.messages import SchedulerReport
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.step_plan import Idle, StepPlan, StepResult


class Scheduler(Protocol):
    """Who runs in the next step, on which blocks. Knows nothing of tokens' meaning nor of ends."""

    @property
    def cap(self) -> int:
        """Return how many sequences may run."""

    def add(self, sequence: Sequence, now: float) -> None:
        """Let a new sequence wait."""

    def remove(self, sequence: Sequence) -> None:
        """Forget it, wherever it is: finished, cancelled, expired, failed.

        Its blocks are free once no step in flight names them; full ones of a finished sequence stay in
        the prefix cache.
        """

    def plan(self, now: float) -> StepPlan | Idle:
        """Return the next step, taking earlier steps in flight as done; advances `computed` and `unknown`.

        A sequence `at_last_token` gets no row. The first row of a sequence sets `first_step_at`.
        """

    def settle(
        self, plan: StepPlan, failed: Container[int] = (), late: Container[int] = ()
    ) -> None:
        """Note that the step has run: tokens are in their sequences' `ids`, who ended has been removed.

        Clears `unknown` where this plan was to sample it, publishes full blocks to the prefix cache and
        frees what waited for this step. Called for every plan, in order of number, before the next is
        planned; `failed` are the rows whose keys and values must not be published, all of them where the
        plan failed as a whole. Of the rows that are `late` the last position will be computed again.
        """

    def set_limits(self, limits: GenerationLimits, now: float) -> None:
        """Obey `limits` from the next plan on."""

    def expired(self, now: float) -> Iterable[Sequence]:
        """Return those whose deadline is not after `now`, waiting or running; the engine removes them."""

    def waiting_in_order(self) -> Items[Sequence]:
        """Return what waits, the next first: for a drain's one look."""

    def report(self) -> SchedulerReport:
        """Return how it stands."""


class BlockLedger(Protocol):
    """The sole owner of KV blocks: free, used (with references), cached (without, in LRU order), copying."""

    def check(self) -> None:
        """Raise AssertionError unless free + used + cached + copying is the total, on device and host."""


class StepExecutor(Protocol):
    """Runs plans one after the other, in order of number."""

    info: GenerationInfo

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        """Do all that `plan` says. `inputs` is called once the forward is under way, and may wait.

        Raises:
            OutOfMemory: the step did not fit.
            DeviceLost: nothing will run any more.
        """
