"""The pods of the pool: created, started after a random time, drained, released. Pure."""

from collections.abc import Callable
from math import exp, log

import numpy as np

from penstock_simulator.batch_time import Noise, ServiceModel
from penstock_simulator.batch_work import Backlog
from penstock_simulator.pods.engine import SimulatedEngine
from penstock_simulator.pods.filled_pod import FilledPod
from penstock_simulator.pods.generating_pod import GeneratingPod
from penstock_simulator.pods.pod import PodLimits, SimulatedPod
from penstock_simulator.pods.stepping_engine import SteppingEngine
from penstock_simulator.scenario import ColdStarts, Scenario

SETTLED_SECONDS = 3600.0
"""The pods that are Ready at time 0 are this old."""


class SimulatedFleet:
    """All pods of a run, past and present."""

    def __init__(self, scenario: Scenario, backlog: Backlog | None = None) -> None:
        """`backlog` is the batch work of the run."""
        settings = scenario.settings
        self._scenario = scenario
        self._backlog = backlog
        self._starts = np.random.default_rng([scenario.seed, 1])
        self._limits = PodLimits(
            window_seconds=settings.max_queue_delay_milliseconds / 1000.0,
            max_queue_depth=scenario.max_queue_depth,
            timeout_seconds=scenario.clients.timeout_seconds,
        )
        self.all: list[SimulatedPod] = []
        """All pods by index, which connections refer to; never removed."""
        self.live: list[SimulatedPod] = []
        """Pods that are not released."""
        self.cap: int | None = None
        for _ in range(scenario.start_replicas):
            start = cold_start(scenario.cold, self._starts)
            self._add(-SETTLED_SECONDS, start - SETTLED_SECONDS, billed_from=0.0)

    def _add(
        self,
        created: float,
        ready_at: float,
        billed_from: float,
        service: ServiceModel | None = None,
    ) -> SimulatedPod:
        """Add a pod, with the scenario's service curve or another one."""
        curve = self._scenario.service if service is None else service
        pod = self._pod(len(self.all), created, ready_at, curve)
        pod.billed_from = billed_from
        pod.cap = self.cap or 1
        self.all.append(pod)
        self.live.append(pod)
        return pod

    def _pod(
        self, index: int, created: float, ready_at: float, service: ServiceModel
    ) -> SimulatedPod:
        scenario, rows = self._scenario, self._scenario.settings.size_max
        random = np.random.default_rng([scenario.seed, 2, index])
        if scenario.generation is not None:
            model = scenario.generation.steps
            noise = None if model.exact else Noise(model, random)
            steps = SteppingEngine(model, noise, rows, scenario.limits)
            return GeneratingPod(index, created, ready_at, steps, self._limits, scenario.generation)
        engine = SimulatedEngine(service, Noise(service, random), rows, scenario.objective_seconds)
        if self._backlog is None:
            return SimulatedPod(index, created, ready_at, engine, self._limits)
        return FilledPod(index, created, ready_at, engine, self._limits, self._backlog)

    def set_cap(self, cap: int) -> None:
        """Publish a cap, which every pod applies from its next batch on."""
        self.cap = cap
        for pod in self.live:
            pod.cap = cap

    def staying(self, now: float) -> list[SimulatedPod]:
        """Return the pods that count as replicas: all that are not terminating."""
        return [pod for pod in self.live if pod.terminating_since > now]

    def ready(self, now: float) -> list[SimulatedPod]:
        """Return the pods that take requests."""
        return [pod for pod in self.live if pod.accepts(now)]

    def scale(self, replicas: int, now: float) -> None:
        """Create or drain pods until `replicas` remain; pods that are not Ready are drained first, then the youngest."""
        staying = self.staying(now)
        for _ in range(replicas - len(staying)):
            start = cold_start(self._scenario.cold, self._starts)
            if self._scenario.foresight:
                self._add(now, now, billed_from=now - start)
            else:
                self._add(now, now + start, billed_from=now)
        staying.sort(key=lambda pod: (pod.ready_at > now, pod.ready_at), reverse=True)
        for pod in staying[: max(0, len(staying) - replicas)]:
            pod.terminate(now, self._scenario.drain_seconds)

    def release(self, now: float) -> None:
        """Drop the pods that have ended by `now`."""
        self.live = [pod for pod in self.live if not pod.release_if_done(now)]

    def gpu_seconds(self, end: float) -> float:
        """Return the GPU-seconds allocated until `end`, from decision to release."""
        return sum(max(0.0, min(pod.released_at, end) - pod.billed_from) for pod in self.all)

    def total(self, value: Callable[[SimulatedPod], float]) -> float:
        """Return a sum over all pods, including released ones."""
        return sum(value(pod) for pod in self.all)


def cold_start(cold: ColdStarts, random: np.random.Generator) -> float:
    """Draw the seconds from creation to Ready."""
    spent = 0.0
    while random.random() < cold.failing_share:
        spent += cold.failing_seconds
    if cold.median_seconds <= 0:
        return spent
    return spent + exp(log(cold.median_seconds) + cold.sigma * random.standard_normal())
