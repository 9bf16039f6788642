"""Step plans and step results: the values that scheduler, engine and step executor exchange."""

from dataclasses import dataclass, field

from msgspec import Struct

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sequence import SampledToken, Sequence, TokenRef


class Row(Struct, gc=False):
    """Consecutive positions of one sequence: a chunk of its prompt, or one token to decode.

    Positions `start` to `start + count - 1` are fed. Their ids are `sequence.ids[start : start + count]`, unless the
    host does not know the token yet: then `placeholder` refers to it and `count` is 1.
    """

    sequence: Sequence
    start: int
    count: int
    blocks: list[int]
    """The block table, in order of position, covering at least `start + count` positions. While a plan that names it
    is in flight the list may only grow at its end; a table that is released is replaced."""
    samples: bool
    """Whether a token is sampled after the last position: the chunk reaches the end of the known tokens."""
    placeholder: TokenRef | None = None
    """The token of an earlier step to feed instead of an id."""
    scores: int = 0
    """How many of its first positions need the log-probability of the next token, which is in the prompt."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """A copy of one block of every layer; the list that contains it determines which side is the device."""

    source: int
    target: int


@dataclass(slots=True)
class StepPlan:
    """The work of one step, in this order: swap out, swap in, copies, rows.

    A block that the plan names stays unchanged until the plan has settled.
    """

    number: int
    """Increases by one per plan."""
    rows: list[Row]
    """At least one, unless the plan only swaps."""
    swap_out: list[BlockCopy] = field(default_factory=list)
    """From device blocks to host blocks."""
    swap_in: list[BlockCopy] = field(default_factory=list)
    """From host blocks to device blocks."""
    copies: list[BlockCopy] = field(default_factory=list)
    """Copy on write, on the device."""

    @property
    def tokens(self) -> int:
        """Return how many positions the step feeds."""
        return sum([row.count for row in self.rows])


@dataclass(frozen=True, slots=True)
class Idle:
    """No step can run before `until` (None: before a message arrives)."""

    until: float | None


@dataclass(slots=True)
class StepResult:
    """The outcome of a plan."""

    plan: StepPlan
    sampled: list[SampledToken | None]
    """One per row of the plan: None where the row does not sample or is in `failed`."""
    failed: dict[int, str]
    """Reason, for the client, by row: rows whose sequence cannot continue."""
    seconds: float
    """Device time."""
    began: float = 0.0
    """Start of the step, on the monotonic clock."""
    captured: bool = False
    """Whether the step also captured a CUDA graph, so that its time does not predict other steps."""
    scored: dict[int, PromptScores] = field(default_factory=dict)
    """Prompt scores by row, `scores` of each; rows without any are omitted."""
