"""`RecordedWorld` and `Comparison`: the common inputs and the results of all simulated cases. Pure."""

from dataclasses import dataclass, replace

from penstock_kubectl.cases import CaseLabels
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.pool_context import PoolContext
from penstock_kubectl.savings import ReplicaPrice, Saving
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_sums import StepSums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.step_time_fit import fit
from penstock_simulator.arrivals import random_lengths
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.outcome import RunSummary
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Generation, Lengths, StepModel, by_arrival
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
    generation: Generation | None = None
    """None of a pool that serves batches."""


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
                "the tokens of the requests are not known: set their means by --tokens PROMPT,ANSWER, or --trace FILE with tokens"
            )
        prompt, answer = (max(mean, 1.0) for mean in means)
        lengths = random_lengths(len(arrivals), prompt, answer, seed)
    return Generation(steps, by_arrival(arrivals, lengths))


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
