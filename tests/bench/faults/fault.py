"""A fault as a value: what goes wrong, for how long, and what may come of it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum

from tests.bench.faults.stage import FaultStage

Injection = Callable[[FaultStage], AbstractContextManager[None]]


class Right(StrEnum):
    """Which moves of the valves a fault calls for, the load being steady."""

    NOTHING = "nothing moves"
    MORE = "more is right: capacity is gone"


@contextmanager
def nothing(stage: FaultStage) -> Iterator[None]:
    """Prepare nothing."""
    yield


@dataclass(frozen=True, slots=True)
class Fault:
    """One line of the table."""

    name: str
    inject: Injection
    """Entering it makes the fault, and raises where it did not come about; leaving it heals."""
    seconds: float = 0.0
    """How long it lasts; 0: it is over once it is made, and recovery counts from its making."""
    right: Right = Right.NOTHING
    takes_a_pod: bool = False
    """One pod dies or is cut off: what is inside it, or on its way to it, may be lost."""
    prepare: Injection = nothing
    """What must stand before the load begins."""
