"""`Grammar` and `GrammarSource`: the engine's interface to grammar states, which run in worker processes.

A state returns a mask of allowed tokens after each accepted token.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Some tokens may follow."""

    mask: "NDArray[np.uint32]"
    """ceil(vocabulary / 32) words: bit t % 32 of word t // 32 is set where token t may follow."""


@dataclass(frozen=True, slots=True)
class Complete:
    """Only a stop token may follow, so the output ends."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The grammar can no longer be enforced; `reason` may be shown to the client."""

    reason: str


Verdict = Allowed | Complete | Broken


class Grammar(Protocol):
    """The grammar state of one sequence; it belongs to the request, so preemption does not lose it."""

    @property
    def verdict(self) -> Verdict | None:
        """Return what may follow; None while it is being computed."""

    def begin(self) -> None:
        """Request the first verdict; later calls do nothing."""

    def resume(self, tokens: Sequence[int]) -> None:
        """Advance a new state by `tokens`, at least one, and request only the verdict after the last."""

    def accept(self, token: int) -> None:
        """Advance the state by `token` and request the next verdict."""

    def close(self) -> None:
        """Close the state."""


class GrammarSource(Protocol):
    """Starts grammar states and waits for their verdicts."""

    def start(self, address: str) -> Grammar:
        """Return a new state of the grammar that the worker at `address` has compiled; never blocks."""

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None:
        """Wait at most `seconds` for the verdicts of `grammars`, all started here; callable from any thread."""
