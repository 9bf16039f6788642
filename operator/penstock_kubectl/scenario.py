"""`RecordedWorld` and `Comparison`: the common inputs and the results of all simulated cases. Pure."""

from dataclasses import dataclass

from penstock_kubectl.cases import CaseLabels
from penstock_kubectl.pool_context import PoolContext
from penstock_kubectl.savings import ReplicaPrice, Saving
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.outcome import RunSummary
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import LineBatch
from penstock_simulator.simulation import RunRecord


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """Arrivals and pods, equal for all cases."""

    subject: PoolContext
    arrivals: Times
    source: str
    """Description of the source of the arrivals."""
    service: ServiceModel
    startup_p90: float
    start: int
    """Ready replicas at the start."""
    began: float
    """Start in Unix seconds."""
    seed: int
    batches: tuple[LineBatch, ...] = ()
    """Batch work, besides the arrivals."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Simulated cases of a pool in the same world."""

    world: RecordedWorld
    cases: tuple[CaseLabels, ...]
    runs: tuple[RunRecord, ...]
    outcomes: tuple[RunSummary, ...]
    price: ReplicaPrice | None = None
    """None: costs are device hours."""
    savings: tuple[Saving, ...] = ()
