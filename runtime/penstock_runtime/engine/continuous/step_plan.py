"""What one step is to do, and what became of it: plain values between scheduler, engine and step."""

from dataclasses import dataclass, field

from msgspec import Struct

from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sequence import SampledToken, Sequence, TokenRef


class Row(Struct, gc=False):
    """Some consecutive positions of one sequence: a chunk of its prompt, or one token to decode.

    Positions `start` to `start + count - 1` are fed; their ids are `sequence.ids[start : start + count]`,
    except that the last may be not yet known to the host (`placeholder`: then count is 1).
    """

    sequence: Sequence
    start: int
    count: int
    blocks: list[int]
    """The block table, in order of position, covering `start + count` positions at least. While a plan that
    names it is in flight the list may only grow at its end; a table that is given up is replaced."""
    samples: bool
    """Whether a token is drawn after the last position: the chunk reaches the end of what is known."""
    placeholder: TokenRef | None = None
    """Feed the token that this earlier step samples, instead of an id."""
    scores: int = 0
    """Of how many of its first positions the next token's log-probability is wanted: that token is in the prompt."""


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy one block of every layer. Which side is the device's is said by the list it is in."""

    source: int
    target: int


@dataclass(slots=True)
class StepPlan:
    """One step. Order of work: swap out, swap in, copies, then the rows.

    A block that any of it names stays as it is until the plan is settled.
    """

    number: int
    """Counts up by one a plan."""
    rows: list[Row]
    """At least one, unless there is only swapping to do."""
    swap_out: list[BlockCopy] = field(default_factory=list)
    """From device blocks to host blocks."""
    swap_in: list[BlockCopy] = field(default_factory=list)
    """From host blocks to device blocks."""
    copies: list[BlockCopy] = field(default_factory=list)
    """On the device: copy on write."""

    @property
    def tokens(self) -> int:
        """Return how many positions the step feeds."""
        return sum([row.count for row in self.rows])


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing can run before `until` (None: before a message comes)."""

    until: float | None


@dataclass(slots=True)
class StepResult:
    """What became of a plan."""

    plan: StepPlan
    sampled: list[SampledToken | None]
    """One a row of the plan: None where the row does not sample, or `failed` names it."""
    failed: dict[int, str]
    """Rows whose sequence cannot go on, with the reason in words fit for a client."""
    seconds: float
    """Device time."""
    began: float = 0.0
    """Of the monotonic clock."""
    captured: bool = False
    """Whether the step also captured a CUDA graph, so that its time predicts no other."""
    scored: dict[int, PromptScores] = field(default_factory=dict)
    """By row, as many as its `scores`; rows without any are left out."""
