"""Fits the simulator's service model to a run's sums and latencies, and compares the simulator with the run."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.capacity.batch_curves import spread
from penstock_operator.decide.scaling.signals.counters import SUMS
from penstock_operator.decide.scaling.signals.service_curve import fit
from penstock_simulator.batch_time import Noise, ServiceModel
from penstock_simulator.pods.engine import SimulatedEngine
from penstock_simulator.pods.pod import PodLimits, SimulatedPod
from penstock_simulator.pods.routing import Times
from tests.bench.fit.traffic import Measured

WINDOW_SECONDS = 0.005
DEPTH = 2048
PERCENTILES = (50, 99)


class Unfit(ValueError):
    """The run does not determine the service curve."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A latency percentile of a run, of the runtime and of the simulator, in seconds."""

    cap: int
    load: float
    """Share of the capacity at the cap."""
    requests: int
    percentile: int
    measured: float
    simulated: float

    @property
    def off(self) -> float:
        """Return the relative error of the simulator."""
        return self.simulated / self.measured - 1


def grown(before: CurveSums, after: CurveSums) -> CurveSums:
    """Return the sums of the batches between two reports of one epoch."""
    return CurveSums(**{name: getattr(after, name) - getattr(before, name) for name in SUMS})


def fitted(sums: CurveSums, calm: Measured, cap: int) -> ServiceModel:
    """Return the service model of a run: the operator's least-squares fit, and the overhead per request.

    `calm` is the same run as measured by its clients at the cap `cap`; the overhead is the difference of the medians.

    Raises:
        Unfit: the batches had too similar sizes.
    """
    line = fit(sums)
    off = spread(sums, line)
    if line is None or off is None:
        raise Unfit(
            f"{sums.batches:.0f} batches do not determine the curve: run longer, at other loads"
        )
    sigma = off / (sums.seconds / sums.batches)
    bare = ServiceModel(line.a, line.c, sigma, tail_share=0.0, overhead=0.0)
    missing = float(np.median(calm.latency) - np.median(simulated(bare, calm.sent, cap)))
    return ServiceModel(line.a, line.c, sigma, tail_share=0.0, overhead=max(missing, 0.0))


def simulated(service: ServiceModel, sent: Times, cap: int, seed: int = 1) -> Times:
    """Return the latencies of the same arrivals at one simulated pod."""
    noise = Noise(service, np.random.default_rng(seed))
    engine = SimulatedEngine(service, noise, cap)
    pod = SimulatedPod(0, 0.0, 0.0, engine, PodLimits(WINDOW_SECONDS, DEPTH, 1e9))
    pod.cap = cap
    pod.push(sent.tolist())
    pod.advance(1e9)
    sizes = np.array(engine.lasts) - np.array(engine.firsts)
    ends = np.repeat(np.array(engine.ends), sizes)
    return np.asarray(ends - sent + service.overhead, dtype=np.float64)


def compared(service: ServiceModel, run: Measured, cap: int, load: float) -> list[Compared]:
    """Return the percentiles of a run and of the simulator."""
    ours = simulated(service, run.sent, cap)
    return [
        Compared(cap, load, len(run.sent), percentile, *_both(run.latency, ours, percentile))
        for percentile in PERCENTILES
    ]


def _both(measured: Times, ours: Times, percentile: int) -> tuple[float, float]:
    return float(np.percentile(measured, percentile)), float(np.percentile(ours, percentile))


def root_mean_square(comparisons: list[Compared]) -> float:
    """Return the root mean square of the relative errors."""
    return sqrt(sum(comparison.off**2 for comparison in comparisons) / len(comparisons))
