"""`Scenario`: the inputs of a simulated run, equal for every law."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_operator.decide.scaling.signals.attainment import Objectives
from penstock_operator.decide.spec.effective import IDLE_SECONDS
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import SignalSource
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.step_time import Generation

TICK_SECONDS = 5.0
WARM_UP_SHARE = 0.1
"""Limit of the warm-up relative to the length of the arrivals, so that attainment covers most of a short run."""
EPOCH = 1_700_000_000.0
"""Unix time of the start of a trace, so that laws see realistic times."""


class Routing(StrEnum):
    """Routing of requests to pods."""

    CONNECTION = "connection"
    """A plain Service: each client connection goes to a random pod and stays there."""
    POWER_OF_TWO = "power-of-two"
    """The less loaded of two pods at random, per request."""
    LEAST_REQUEST = "least-request"
    """The pod with the fewest requests in flight, as the gateway chooses it; requests without a pod are held."""
    CENTRAL_QUEUE = "central-queue"
    """One queue; a free pod pulls its next batch."""


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """Time of a pod from creation to Ready: lognormal, with some failing starts."""

    median_seconds: float = 60.0
    sigma: float = 0.5
    failing_share: float = 0.02
    failing_seconds: float = 300.0
    """Time after which a failing start is restarted; it is billed."""


@dataclass(frozen=True, slots=True)
class ClientBehavior:
    """Behavior of the clients."""

    connections: int = 256
    connection_seconds: float = 20.0
    """The runtime closes a connection at this age, +- 50 %."""
    connection_requests: int = 10
    """The runtime closes a connection after so many requests of 5 ms of device time or more."""
    timeout_seconds: float = 30.0
    """A client gives up after this long; its request then leaves the queue."""


@dataclass(frozen=True, slots=True)
class Loss:
    """How samples are taken, delayed and lost."""

    source: SignalSource = SignalSource.PODS
    """The operator reads all pods at the same moment; Prometheus scrapes each at a moment of its own within the interval."""
    delay_seconds: float = 5.0
    """Time after which a sample can be read."""
    jitter_seconds: float = 0.0
    """Maximum deviation of a scrape by Prometheus from its time, either way."""
    share: float = 0.0
    """Share of samples that are lost, independently."""
    outages: tuple[tuple[float, float], ...] = ()
    """(from, until) in seconds of the trace: no source answers at all."""


@dataclass(frozen=True, slots=True)
class LineBatch:
    """A batch of lines of one row each; times are seconds of the trace."""

    lines: int
    submitted: float
    expires: float


class ImpossibleScenario(ValueError):
    """Settings that no pool can have."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything but the law and the arrivals."""

    service: ServiceModel
    settings: LawSettings
    """Settings of the law: objective, range of the cap, bounds of replicas."""
    start_replicas: int = 10
    """Ready at time 0."""
    routing: Routing = Routing.CONNECTION
    cold: ColdStarts = field(default_factory=ColdStarts)
    clients: ClientBehavior = field(default_factory=ClientBehavior)
    loss: Loss = field(default_factory=Loss)
    max_queue_depth: int = 2048
    drain_seconds: float = 120.0
    warm_up_seconds: float = 120.0
    """Time excluded from attainment, but not from cost."""
    idle_seconds: int = IDLE_SECONDS
    """Time without a request after which the last replica goes, if `settings.min_replicas` is 0."""
    batches: tuple[LineBatch, ...] = ()
    """Batch work, which waits for places that requests leave."""
    batch_work: BatchWorkSpec | None = None
    """What the law may add for it; None: nothing."""
    generation: Generation | None = None
    """Pods that generate text; None: pods that serve batches."""
    seed: int = 1
    foresight: bool = False
    """Whether pods requested at t are Ready at t and billed from a cold start before; only for the bound."""

    def __post_init__(self) -> None:
        if self.batches and self.routing is Routing.CENTRAL_QUEUE:
            raise ImpossibleScenario(
                f"batch work with {self.routing} routing: pods without queues take no lines; use {Routing.LEAST_REQUEST}"
            )
        if self.settings.min_replicas == 0 and self.routing is not Routing.LEAST_REQUEST:
            raise ImpossibleScenario(
                f"minReplicas 0 with {self.routing} routing: requests at zero would be lost; use {Routing.LEAST_REQUEST}, whose gateway holds them"
            )
        least, most = self.settings.min_replicas, self.settings.max_replicas
        if least > most:
            raise ImpossibleScenario(f"minReplicas is {least}, above maxReplicas {most}")
        if self.generation and (self.batches or self.routing is Routing.CENTRAL_QUEUE):
            raise ImpossibleScenario(
                f"pods that generate take no batch work and no {Routing.CENTRAL_QUEUE} routing: use {Routing.LEAST_REQUEST}"
            )

    def of_length(self, seconds: float) -> "Scenario":
        """Return the scenario for arrivals of so many seconds, with a warm-up that fits them."""
        return replace(self, warm_up_seconds=min(self.warm_up_seconds, WARM_UP_SHARE * seconds))

    @property
    def limits(self) -> tuple[float, float, float]:
        """Return the objectives of a request, its first token and its time per output token, in seconds; infinite without one."""
        settings = self.settings
        request, first, each = (
            inf if milliseconds is None else milliseconds / 1000.0
            for milliseconds in (
                settings.objective_milliseconds,
                settings.first_token_milliseconds,
                settings.output_token_milliseconds,
            )
        )
        return request, first, each

    @property
    def objective_seconds(self) -> float:
        """Return D; without an objective a request is on time while its client waits."""
        milliseconds = self.settings.objective_milliseconds
        return self.clients.timeout_seconds if milliseconds is None else milliseconds / 1000.0

    @property
    def target(self) -> float:
        """Return the share of requests that must be on time, 0 to 1."""
        return 1 - Objectives.of(self.settings).late_share

    @property
    def patience_seconds(self) -> float:
        """Return the time after which a waiting request is surely late."""
        _, first_token, _ = self.limits
        return self.objective_seconds if first_token == inf else first_token
