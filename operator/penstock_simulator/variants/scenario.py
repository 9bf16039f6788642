"""`PoolVariant` and `VariantsScenario`: the inputs of a run of a pool with variants."""

from dataclasses import dataclass, field

from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import ColdStarts, Scenario


@dataclass(frozen=True, slots=True)
class PoolVariant:
    """One variant: the true curve of its pods, their price and their start."""

    name: str
    service: ServiceModel
    per_hour: float | None
    """Price of a replica-hour; None: unknown."""
    least: int = 0
    most: int = 64
    start_replicas: int = 0
    """Ready at time 0."""
    cold: ColdStarts = field(default_factory=ColdStarts)


@dataclass(frozen=True, slots=True)
class VariantsScenario:
    """Everything but the decisions and the arrivals."""

    world: Scenario
    """Settings, clients, losses and routing; its own service curve and start replicas are not used."""
    variants: tuple[PoolVariant, ...]
