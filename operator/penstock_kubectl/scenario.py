"""What every simulated case is given alike. Pure."""

from dataclasses import dataclass

from penstock_kubectl.cases import PolicyCase
from penstock_kubectl.pool_context import PoolContext
from penstock_simulator.outcome import RunSummary
from penstock_simulator.routing import Times
from penstock_simulator.service import ServiceModel
from penstock_simulator.world import RunRecord


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """Arrivals and pods, the same for every policy."""

    subject: PoolContext
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

    world: RecordedWorld
    cases: tuple[PolicyCase, ...]
    runs: tuple[RunRecord, ...]
    outcomes: tuple[RunSummary, ...]
