"""The interface between the engine and grammars: a state in another process that returns, after each token, the next mask."""

from collections.abc import Iterable
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
    """Only a stop id may follow: the answer ends."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The grammar can no longer be enforced; the reason is fit for a client."""

    reason: str


Verdict = Allowed | Complete | Broken


class Grammar(Protocol):
    """The grammar state of one sequence; it belongs to the request, so preemption does not lose it."""

    @property
    def verdict(self) -> Verdict | None:
        """Return what may follow; None while it is being computed."""

    def begin(self) -> None:
        """Request the first verdict; later calls do nothing."""

    def accept(self, token: int) -> None:
        """Advance the state by `token` and request the next verdict."""

    def close(self) -> None:
        """Close the state."""


class GrammarSource(Protocol):
    """Starts grammar states and waits for their verdicts."""

    def start(self, address: str) -> Grammar:
        """Return a new state of the grammar that is compiled at `address`; never blocks."""

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None:
        """Return when all of `grammars`, started here, have a verdict, or after `seconds`; any thread may call it."""
