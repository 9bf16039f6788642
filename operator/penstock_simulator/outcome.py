"""`RunSummary`: attainment, cost and latency of a run (docs/design/control-law.md#evaluation). Pure."""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

import numpy as np

from penstock_operator.decide.spec.objectives import LATE_SHARE
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Generation
from penstock_simulator.pods.stepping_engine import SteppingEngine
from penstock_simulator.simulation import RunRecord, reversals

WORST_SECONDS = 300.0
WORST_STEP_SECONDS = 30.0
MIN_SHARE = 0.1
"""Share of the mean traffic below which a window is ignored for the worst five minutes."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class BatchSummary:
    """Batch work of one run."""

    batches: int
    in_time: int
    """Batches whose lines were all answered before they expired."""
    lines: int
    answered: int
    share: float
    """Lines of all rows that the pods served, 0 to 1."""
    gpu_hours: float
    """This share of the GPU-hours (docs/how-to/cost.md#what-batch-work-costs)."""


@dataclass(frozen=True, slots=True)
class GenerationSummary:
    """Latency and lateness of generated text in one run."""

    first_token_attainment: float
    """Share of the received requests whose first token came within its objective, as `RunSummary.attainment`."""
    output_token_attainment: float
    first_token_p99_seconds: float
    """Of completed requests, network and codec included."""
    output_token_p99_seconds: float
    """Of completed answers of several tokens."""
    preemptions: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Summary figures of one run."""

    law: str
    requests: int
    """Received after the warm-up."""
    attainment: float
    """Completed on time / received; rejected, failed and expired ones are misses.

    Of several objectives the one missed most often counts, relative to the share that may miss it.
    """
    worst_five_minutes: float
    gpu_hours: float
    p50_seconds: float
    """Of completed requests, network and codec included."""
    p99_seconds: float
    never_completed: int
    """Rejected, failed or expired after the warm-up."""
    mean_replicas: float
    most_replicas: int
    mean_cap: float
    reversals_per_hour: float
    target: float = 1 - LATE_SHARE
    """Attainment that the objective requires."""
    met_start: int = 0
    """Requests after the warm-up that came at zero replicas and waited for a start."""
    batch_work: BatchSummary | None = None
    """None without batch work."""
    generation: GenerationSummary | None = None
    """None of pods that serve batches."""

    @property
    def attains(self) -> bool:
        """Whether the run attained the objective."""
        return self.attainment >= self.target

    @property
    def suffices(self) -> bool:
        """Whether the run attained the objective, and answered all batches in time."""
        work = self.batch_work
        return self.attains and (work is None or work.in_time == work.batches)

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return asdict(self)


def outcome(run: RunRecord) -> RunSummary:
    """Return the summary of a run."""
    arrived, latency = completed(run)
    warm = run.scenario.warm_up_seconds
    counted = arrived >= warm
    arrived, latency = arrived[counted], latency[counted]
    received = run.arrivals[run.arrivals >= warm]
    good = on_time(run)
    good = good[good >= warm]
    hours = max(run.end, 1.0) / HOUR
    some = len(latency) > 0
    answered = run.scenario.generation
    text = None if answered is None else _generation(run, answered, received)
    return RunSummary(
        law=run.law,
        requests=len(received),
        attainment=len(good) / max(len(received), 1) if text is None else text[0],
        worst_five_minutes=worst(received, good),
        gpu_hours=run.fleet.gpu_seconds(run.end) / HOUR,
        p50_seconds=float(np.quantile(latency, 0.5)) if some else 0.0,
        p99_seconds=float(np.quantile(latency, 0.99)) if some else 0.0,
        never_completed=len(received) - len(latency),
        mean_replicas=run.fleet.gpu_seconds(run.end) / HOUR / hours,
        most_replicas=max((tick.devices for tick in run.moments), default=0),
        mean_cap=float(np.mean([tick.cap for tick in run.moments])) if run.moments else 0.0,
        reversals_per_hour=reversals(run.moments) / hours,
        target=run.scenario.target,
        met_start=sum(time >= warm for time in run.router.met_start),
        batch_work=_batch_work(run) if run.scenario.batches else None,
        generation=None if text is None else text[1],
    )


def _generation(run: RunRecord, text: Generation, received: Times) -> tuple[float, GenerationSummary]:  # fmt: skip
    """Return the attainment of the objective that is missed most often, and the figures of generated text.

    The time per output token counts for answers of several tokens; without an objective, completed requests are on time.
    """
    arrived, *latencies = answers(run)
    counted, late = arrived >= run.scenario.warm_up_seconds, run.scenario.settings.late
    number, several = len(received), counted & (latencies[2] > 0)
    longer = sum(text.lengths[time].answer > 1 for time in received.tolist())
    groups = ((counted, number), (counted, number), (several, longer))
    strictest, shares = 1 - run.scenario.target, []
    misses = [1 - int(counted.sum()) / max(number, 1)]
    allowed = (late.request, late.first_token, late.output_token)
    objectives = zip(latencies, run.scenario.limits, allowed, groups, strict=True)
    for latency, limit, share, (those, expected) in objectives:
        missed = (expected - int((those & (latency <= limit)).sum())) / max(expected, 1)
        shares.append(1 - missed)
        misses.append(missed * (strictest / share if limit < inf else 0.0))
    first, each = (
        float(np.quantile(latency[those], 0.99)) if those.any() else 0.0
        for latency, (those, _) in zip(latencies[1:], groups[1:], strict=True)
    )
    engines = [pod.engine for pod in run.fleet.all if isinstance(pod.engine, SteppingEngine)]
    summary = GenerationSummary(
        shares[1], shares[2], first, each, sum(engine.preemptions for engine in engines)
    )
    return max(1 - max(misses), 0.0), summary


def answers(run: RunRecord) -> tuple[Times, Times, Times, Times]:
    """Return arrival, latency, time to first token and time per output token of every completed answer, in seconds.

    An answer of one token has no time between tokens: 0.
    """
    parts = [
        engine.answers
        for _, engine in run.router.served()
        if isinstance(engine, SteppingEngine) and engine.answers
    ]
    table = np.concatenate(parts) if parts else np.empty((0, 4))
    arrived, first, last, tokens = table.T
    overhead = run.scenario.service.overhead
    each = (last - first) / np.maximum(tokens - 1, 1)
    return arrived, last - arrived + overhead, first - arrived + overhead, each


def on_time(run: RunRecord) -> Times:
    """Return the arrivals of all requests that were within every objective, ascending."""
    if run.scenario.generation is None:
        arrived, latency = completed(run)
        return np.sort(arrived[latency <= run.scenario.objective_seconds])
    arrived, *latencies = answers(run)
    pairs = zip(latencies, run.scenario.limits, strict=True)
    return np.sort(arrived[np.logical_and.reduce([latency <= limit for latency, limit in pairs])])


def _batch_work(run: RunRecord) -> BatchSummary:
    """Return what became of the batches, and their share of the GPU-hours by rows served."""
    results = run.backlog.results()
    lines = run.fleet.total(lambda pod: sum(pod.engine.fills.values()))
    rows = run.fleet.total(lambda pod: sum(pod.engine.lasts) - sum(pod.engine.firsts))
    share = lines / max(lines + rows, 1)
    return BatchSummary(
        batches=len(results),
        in_time=sum(ended <= batch.expires for batch, _, ended in results),
        lines=sum(batch.lines for batch, _, _ in results),
        answered=sum(answered for _, answered, _ in results),
        share=share,
        gpu_hours=share * run.fleet.gpu_seconds(run.end) / HOUR,
    )


def completed(run: RunRecord) -> tuple[Times, Times]:
    """Return arrival and latency in seconds of every completed request, in no particular order."""
    if run.scenario.generation is not None:
        return answers(run)[:2]
    arrived, latency = [np.empty(0)], [np.empty(0)]
    queues: dict[int, Times] = {}
    for queue, engine in run.router.served():
        times = queues.setdefault(id(queue), np.array(queue, dtype=np.float64))
        firsts, lasts = np.array(engine.firsts, dtype=int), np.array(engine.lasts, dtype=int)
        if not len(firsts):
            continue
        sizes = lasts - firsts
        offsets = np.repeat(firsts - np.concatenate(([0], np.cumsum(sizes)[:-1])), sizes)
        taken = times[np.arange(len(offsets)) + offsets]
        arrived.append(taken)
        ends = np.repeat(np.array(engine.ends), sizes)
        latency.append(ends - taken + run.scenario.service.overhead)
    return np.concatenate(arrived), np.concatenate(latency)


def worst(received: Times, good: Times) -> float:
    """Return the minimum attainment of any five minutes with enough traffic."""
    if not len(received):
        return 1.0
    last = max(received[0], received[-1] - WORST_SECONDS)
    starts = np.arange(received[0], last + WORST_STEP_SECONDS, WORST_STEP_SECONDS)
    arrived = _within(received, starts)
    minimum = max(1.0, MIN_SHARE * float(arrived.mean()))
    enough = arrived >= minimum
    shares = _within(good, starts)[enough] / arrived[enough]
    return float(shares.min()) if len(shares) else 1.0


def _within(times: Times, starts: Times) -> Times:
    ends = np.searchsorted(times, starts + WORST_SECONDS)
    return (ends - np.searchsorted(times, starts)).astype(np.float64)
