"""What one run is given: the same for every law."""

from dataclasses import dataclass, field
from enum import StrEnum

from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_simulator.service import ServiceModel

TICK_SECONDS = 5.0
EPOCH = 1_700_000_000.0
"""Unix time of a trace's beginning: laws see times as large as real ones."""


class Routing(StrEnum):
    """Who chooses the pod of a request."""

    CONNECTION = "connection"
    """A plain Service: each client connection goes to a pod at random, and stays there while it lives."""
    POWER_OF_TWO = "power-of-two"
    """The less loaded of two pods at random, per request."""
    CENTRAL_QUEUE = "central-queue"
    """One queue; a free pod pulls its next batch."""


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """How long a pod takes from its creation to Ready: lognormal, and some fail first."""

    median_seconds: float = 60.0
    sigma: float = 0.5
    failing_share: float = 0.02
    failing_seconds: float = 300.0
    """After so long a failing start is begun anew, and billed all the while."""


@dataclass(frozen=True, slots=True)
class ClientBehaviour:
    """Those who ask."""

    connections: int = 256
    connection_seconds: float = 20.0
    """The runtime closes a connection at this age, +- 50 %."""
    timeout_seconds: float = 30.0
    """A client gives up after this long; its request then leaves the queue."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What becomes of samples on their way."""

    delay_seconds: float = 5.0
    """Their age when a law sees them."""
    share: float = 0.0
    """Of samples that are lost, one by one."""
    outages: tuple[tuple[float, float], ...] = ()
    """(from, until) in seconds of the trace: no source answers at all."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything but the law and the arrivals."""

    service: ServiceModel
    settings: LawSettings
    """What the law obeys: the objective, the cap envelope, the bounds on replicas."""
    start_replicas: int = 10
    """Ready at time 0."""
    routing: Routing = Routing.CONNECTION
    cold: ColdStarts = field(default_factory=ColdStarts)
    clients: ClientBehaviour = field(default_factory=ClientBehaviour)
    loss: Loss = field(default_factory=Loss)
    max_queue_depth: int = 2048
    drain_seconds: float = 120.0
    warm_up_seconds: float = 120.0
    """Left out of attainment, never out of cost."""
    seed: int = 1
    foresight: bool = False
    """Pods ordered at t are Ready at t, and billed from a cold start before: only for the bound."""

    @property
    def objective_seconds(self) -> float:
        """Return D; without an objective a request is on time while its client waits."""
        milliseconds = self.settings.objective_milliseconds
        return self.clients.timeout_seconds if milliseconds is None else milliseconds / 1000.0
