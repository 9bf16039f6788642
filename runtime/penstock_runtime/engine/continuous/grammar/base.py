"""A grammar as the engine sees it: a state elsewhere that says, after each token, what may follow."""

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
    """Nothing but a stop id may follow: the answer ends."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The grammar cannot be enforced any further; the reason is fit for a client."""

    reason: str


Verdict = Allowed | Complete | Broken


class Grammar(Protocol):
    """The state of one generation under a grammar; lives beside the request, so preemption cannot lose it."""

    @property
    def verdict(self) -> Verdict | None:
        """Return what may follow; None while it is being computed."""

    def begin(self) -> None:
        """Ask for the first verdict, once; later calls do nothing."""

    def accept(self, token: int) -> None:
        """Move on, and ask for the next verdict."""

    def close(self) -> None:
        """Forget the state."""


class GrammarSource(Protocol):
    """Where the engine gets grammars from."""

    def start(self, address: str) -> Grammar:
        """Return a fresh state of the grammar that is compiled at `address`; never blocks."""

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None:
        """Return when all of `grammars`, started here, have a verdict, or after `seconds`; any thread may call it."""
