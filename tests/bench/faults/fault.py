"""The description of a fault: its injection, duration and permitted effects."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum

from tests.bench.faults.stage import FaultStage

Injection = Callable[[FaultStage], AbstractContextManager[None]]


class Right(StrEnum):
    """Moves of cap and replicas that are correct during a fault under steady load."""

    NOTHING = "nothing moves"
    MORE = "more is right: capacity is gone"


@contextmanager
def nothing(stage: FaultStage) -> Iterator[None]:
    """Prepare nothing."""
    yield


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the table."""

    name: str
    inject: Injection
    """Context manager that injects the fault, raises if the injection fails, and heals on exit."""
    seconds: float = 0.0
    """Duration; with 0 the fault is momentary, and recovery counts from its injection."""
    right: Right = Right.NOTHING
    takes_a_pod: bool = False
    """Whether one pod dies or is cut off, so that requests in it or on the way to it may be lost."""
    prepare: Injection = nothing
    """Context manager that prepares the fault before the load starts."""
