"""`RecordedWorld` and `Comparison`: the common inputs and the results of all simulated cases. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from penstock_kubectl.cost_text import ReplicaPrice
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.pool_context import PoolContext
from penstock_kubectl.simulate.cases import CaseLabels
from penstock_operator.decide.cost.prices import plain
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import StepSums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import fit
from penstock_simulator.arrivals import random_lengths
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.outcome import RunSummary
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Generation, Lengths, StepModel, by_arrival
from penstock_simulator.scenario import LineBatch
from penstock_simulator.simulation import RunRecord
from penstock_simulator.variants.scenario import PoolVariant

THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class AlikePods:
    """The pods of a pool without variants."""

    service: ServiceModel
    startup_p90: float
    start: int
    """Ready replicas at the start."""
    devices: int
    """Devices of a replica."""
    price: ReplicaPrice | None
    """None: costs are device hours."""
    generation: Generation | None = None
    """None of a pool that serves batches."""

    @property
    def currency(self) -> str | None:
        """Return the currency, empty if none is known; None without a price."""
        return None if self.price is None else self.price.currency

    def __str__(self) -> str:
        """Return what the simulation assumes of them."""
        step = curve_text(self.service)
        if self.generation is not None:
            a, p, d, k = (1000 * getattr(self.generation.steps, name) for name in "apdk")
            step = (
                f"a step takes {a:.4g} ms, {p:.4g} for 256 prompt tokens, {d:.3g} a row and {k:.3g} for 4096 tokens read;"
                f" the cache holds {self.generation.steps.cache_tokens} tokens"
            )
        return f"{step}, start-up p90 {self.startup_p90:.0f} s, {self.start} replicas at the start"


@dataclass(frozen=True, slots=True)
class MixedPods:
    """The pods of a pool with variants."""

    variants: tuple[PoolVariant, ...]
    startups_p90: Mapping[str, float]
    devices: Mapping[str, int]
    """Devices of a replica of each variant."""
    capacities: Mapping[str, float]
    """Rows a second of a replica within the objective, as in the status."""
    caps: Mapping[str, int]
    """Published batch caps."""
    requested: Mapping[str, int]
    """Replicas that the pool requests of each variant, Ready or not."""
    left_out: tuple[str, ...]
    """Variants whose curve is unknown."""
    prices_in: str

    @property
    def currency(self) -> str | None:
        """Return the currency, empty if none is known; None unless every variant has a price."""
        if any(each.per_hour is None for each in self.variants):
            return None
        return self.prices_in

    def __str__(self) -> str:
        """Return what the simulation assumes of them."""
        texts = [
            f"{each.name}: {curve_text(each.service)}, start-up p90 {self.startups_p90[each.name]:.0f} s,"
            f" {each.start_replicas} at the start, {self._price(each)}"
            for each in self.variants
        ]
        if self.left_out:
            texts.append(f"not simulated, since no curve is known: {', '.join(self.left_out)}")
        return "; ".join(texts)

    def _price(self, variant: PoolVariant) -> str:
        if variant.per_hour is None:
            return "price unknown"
        amount = f"{plain(Decimal(str(variant.per_hour)))} {self.prices_in}".strip()
        return f"{amount} an hour of a replica"


@dataclass(frozen=True, slots=True)
class RecordedWorld:
    """Arrivals, equal for all cases."""

    subject: PoolContext
    arrivals: Times
    length: float
    """Seconds, with a quiet time after the last arrival."""
    source: str
    """Description of the source of the arrivals."""
    began: float
    """Start in Unix seconds."""
    seed: int
    batches: tuple[LineBatch, ...] = ()
    """Batch work, besides the arrivals."""


@dataclass(frozen=True, slots=True)
class Result:
    """One simulated case."""

    labels: CaseLabels
    run: RunRecord
    outcome: RunSummary
    devices: float
    """Devices of a replica; of unlike replicas the mean over their hours."""
    cost: Decimal | None = None
    """None without a price."""
    batch_cost: Decimal | None = None
    """The part that batch work has."""
    replica_hours: Mapping[str, float] = field(default_factory=dict)
    """By variant; empty of a pool without variants."""

    @property
    def device_hours(self) -> float:
        """Return the device hours."""
        return self.outcome.gpu_hours * self.devices

    def per_thousand(self, rows: int) -> Decimal | None:
        """Return the cost of 1,000 of the rows that the run received."""
        return None if self.cost is None else self.cost * THOUSAND / rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """Simulated cases of a pool in the same world."""

    world: RecordedWorld
    pods: AlikePods | MixedPods
    results: tuple[Result, ...]
    """The first is the pool as it is."""
    baselines: int = 0
    """How many of the results, at the end, are what the law is compared with."""


def curve_text(service: ServiceModel) -> str:
    """Return the time of a batch."""
    return f"t(b) = {1000 * service.a:.4g} + {1000 * service.c:.4g} b ms"


def steps_of(given: StepModel | None, sums: StepSums | None, cache_tokens: int) -> StepModel:
    """Return the time of a step: as given, else from the sums of the history.

    Raises:
        NotEnoughData: neither is known.
    """
    if given is not None:
        return replace(given, cache_tokens=cache_tokens)
    known = None if sums is None else fit(sums)
    if known is None:
        raise NotEnoughData(
            "the time of the pool's steps is not known yet: set it by --steps A,P,D,K in ms"
        )
    noise = known.sigma * known.steps.n / known.steps.t
    return StepModel(known.a, known.p, known.d, known.k, cache_tokens, sigma=noise, tail_share=0.0)


def generation(
    steps: StepModel, arrivals: Times, lengths: Lengths | None, means: tuple[float, float] | None, seed: int
) -> Generation:  # fmt: skip
    """Return pods that generate text, with the tokens of each arrival: those of the trace, else geometric with `means`.

    Raises:
        NotEnoughData: neither is known.
    """
    if lengths is None:
        if means is None:
            raise NotEnoughData(
                "the tokens of the requests are not known yet: set their means by --tokens PROMPT,ANSWER, or --trace FILE with tokens"
            )
        prompt, answer = (max(mean, 1.0) for mean in means)
        lengths = random_lengths(len(arrivals), prompt, answer, seed)
    return Generation(steps, by_arrival(arrivals, lengths))
