"""What every simulated case is given alike. Pure."""

from dataclasses import dataclass

from penstock_kubectl.cases import Case
from penstock_kubectl.pool_context import Subject
from penstock_simulator.outcome import Outcome
from penstock_simulator.routing import Times
from penstock_simulator.service import ServiceModel
from penstock_simulator.world import Run


@dataclass(frozen=True, slots=True)
class World:
    """Arrivals and pods, the same for every policy."""

    subject: Subject
    arrivals: Times
    source: str
    """Where the arrivals are from, in words."""
    service: ServiceModel
    startup_p90: float
    start: int
    """Replicas Ready at the beginning."""
    began: float
    """When that is, in Unix seconds."""
    seed: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ways of governing the pool, side by side in one world."""

    world: World
    cases: tuple[Case, ...]
    runs: tuple[Run, ...]
    outcomes: tuple[Outcome, ...]
