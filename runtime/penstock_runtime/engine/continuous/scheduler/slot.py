"""What the scheduler keeps of one sequence beside the sequence itself."""

from dataclasses import dataclass, field

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.scheduler.prefix_hash import HashChain
from penstock_runtime.engine.continuous.sequence import Sequence

NEVER = -1
"""No plan has named its blocks yet; plans count from 0."""


@dataclass(slots=True, eq=False)
class SequenceState:
    """One sequence between `add` and `remove`; its order is read through the properties of `Ordered`."""

    sequence: Sequence
    number: int
    """Order of admission: ties go to the first."""
    chain: HashChain
    name: str = ""
    blocks: list[int] = field(default_factory=list)
    """Its block table on the device; replaced, never emptied, when it is given up."""
    host: list[int] = field(default_factory=list)
    """Host blocks that hold its first `sequence.computed` positions while it is swapped out."""
    last_plan: int = NEVER
    """The last plan that names its blocks."""
    settled: int = 0
    """Positions that steps which have run computed into `blocks`."""
    ran: int = 0
    """Positions fed since it last began to run."""
    level: int = 0
    """Of the multi-level feedback; 0 is served first."""
    ran_in_level: int = 0
    lost: int = 0
    """Positions that were computed when it was last preempted."""
    rank: float = 0.0
    """The key of `ranked_by`, where that stands still."""
    ranked_by: Discipline | None = None

    def __post_init__(self) -> None:
        self.name = str(self.sequence.uid)

    @property
    def arrived(self) -> float:
        """As `Ordered.arrived`: of the request, however often it was preempted."""
        return self.sequence.request.arrived

    @property
    def deadline(self) -> float | None:
        """As `Ordered.deadline`."""
        return self.sequence.request.deadline

    @property
    def priority(self) -> int:
        """As `Ordered.priority`."""
        return self.sequence.request.priority

    @property
    def tenant(self) -> str:
        """As `Ordered.tenant`."""
        return self.sequence.request.tenant

    @property
    def work(self) -> float:
        """As `Ordered.work`: positions to feed until the longest answer it may give is complete."""
        sequence = self.sequence
        answer = sequence.params.max_tokens - (sequence.length - sequence.request.prompt_tokens)
        return sequence.length - sequence.computed + max(0, answer)

    @property
    def known_left(self) -> int:
        """Return how many known positions must still be fed."""
        return len(self.sequence.ids) - self.sequence.computed

    @property
    def fills(self) -> bool:
        """Return whether its next row feeds a chunk of what is known."""
        return len(self.sequence.ids) - self.sequence.computed > 1
