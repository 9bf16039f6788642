"""`SequenceState`: the scheduler's record of one sequence: its blocks, its level and its rank."""

from dataclasses import dataclass, field

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.scheduler.prefix_cache import HashChain
from penstock_runtime.engine.continuous.sequence import Sequence

NEVER = -1
"""Value of `last_plan` before any plan names the blocks of a sequence; plan numbers start at 0."""


@dataclass(slots=True, eq=False)
class SequenceState:
    """A sequence between `add` and `remove`; the disciplines order it by the fields of `Ordered`."""

    sequence: Sequence
    number: int
    """Order of admission; breaks ties."""
    hash_chain: HashChain
    name: str = field(init=False)
    """Key in the wait queue."""
    arrived: float = field(init=False)
    deadline: float | None = field(init=False)
    priority: int = field(init=False)
    tenant: str = field(init=False)

    blocks: list[int] = field(default_factory=list)
    """Block table on the device; a release replaces the list and never empties it."""
    host_blocks: list[int] = field(default_factory=list)
    """Host copies of the first `sequence.computed` positions while it is swapped out."""
    last_plan: int = NEVER
    """Number of the last plan that names its blocks."""
    settled: int = 0
    """Positions in `blocks` that completed steps computed."""
    broken: bool = False
    """Whether one of its rows failed, so that later rows attend to positions that were not computed."""

    run_positions: int = 0
    """Positions fed since it last started to run."""
    level: int = 0
    """Level of the multi-level feedback queue; 0 is served first."""
    level_positions: int = 0
    """Positions fed in that level."""
    preempted_at: int = 0
    """Computed positions at the last preemption."""

    cached_rank: float = 0.0
    rank_discipline: Discipline | None = None
    """The discipline that `cached_rank` was computed for."""

    def __post_init__(self) -> None:
        request = self.sequence.request
        self.name = str(self.sequence.uid)
        self.arrived, self.deadline = request.arrived, request.deadline
        self.priority, self.tenant = request.priority, request.tenant

    @property
    def work(self) -> float:
        """Return how many positions remain to be fed if the output reaches `max_tokens`."""
        sequence = self.sequence
        output = sequence.length - sequence.request.prompt_tokens
        return sequence.length - sequence.computed + max(0, sequence.params.max_tokens - output)

    @property
    def unfed(self) -> int:
        """Return how many known positions are still to be fed."""
        return len(self.sequence.ids) - self.sequence.computed

    @property
    def prefills(self) -> bool:
        """Return whether its next row is a chunk of known positions."""
        return len(self.sequence.ids) - self.sequence.computed > 1
