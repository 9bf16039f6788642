"""Simulated scraping: samples reach the law late, and some are lost. Pure."""

from collections.abc import Iterator, Sequence

import numpy as np

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.law import LawInput, LawPod, RequestSpread
from penstock_operator.observed import PodSample, PoolSignals, SignalSource, UtilizationSource
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.pod import SimulatedPod
from penstock_simulator.scenario import EPOCH, TICK_SECONDS, Routing, Scenario

SPREAD = {
    Routing.CONNECTION: RequestSpread.BY_CONNECTION,
    Routing.POWER_OF_TWO: RequestSpread.LEAST_REQUEST,
    Routing.LEAST_REQUEST: RequestSpread.LEAST_REQUEST,
    Routing.CENTRAL_QUEUE: RequestSpread.CENTRAL_QUEUE,
}
LISTENING_SECONDS = 5.0
"""Time from the creation of a pod until it answers scrapes: the runtime listens before it loads the model."""


class Scraper:
    """Takes a sample of every pod each `TICK_SECONDS` and delivers it after its delay."""

    def __init__(self, scenario: Scenario) -> None:
        self._loss = scenario.loss
        self._bound = scenario.settings.size_max
        self._random = np.random.default_rng([scenario.seed, 4])
        self._phases = np.random.default_rng([scenario.seed, 6])
        self._next: dict[str, tuple[float, float]] = {}
        """Time of each pod's next scrape: the regular one, and with jitter."""
        self._pending: list[PodSample] = []
        self._newest: dict[str, PodSample] = {}
        """The last sample of each pod in Prometheus; none after a scrape that failed."""
        self._busy: dict[str, tuple[float, float]] = {}
        """(time, busy seconds) at each pod's last scrape."""

    @property
    def at_once(self) -> bool:
        """Return whether all pods are scraped at the same moment."""
        return self._loss.source is SignalSource.PODS

    def scrape(self, fleet: SimulatedFleet, now: float) -> None:
        """Take a sample of every pod that listens, loading and draining ones too, if its scrape is due."""
        listening = [
            pod for pod in fleet.live if min(pod.ready_at, pod.created + LISTENING_SECONDS) <= now
        ]
        self._pending += [
            self._sample(pod, now) if pod.ready_at <= now else self._of_loading(pod, now)
            for pod in listening
            if self._due(pod, now)
        ]
        live = {pod.uid for pod in listening}
        self._busy = {uid: known for uid, known in self._busy.items() if uid in live}
        self._next = {uid: known for uid, known in self._next.items() if uid in live}
        self._newest = {uid: known for uid, known in self._newest.items() if uid in live}

    def _due(self, pod: SimulatedPod, now: float) -> bool:
        if self.at_once:
            return True
        if pod.uid not in self._next:
            first = now + self._phases.uniform(0.0, TICK_SECONDS)
            self._next[pod.uid] = (first, first)
        regular, actual = self._next[pod.uid]
        if actual > now:
            return False
        regular += TICK_SECONDS
        jitter = self._loss.jitter_seconds
        self._next[pod.uid] = (regular, regular + self._phases.uniform(-jitter, jitter))
        return True

    def signals(self, now: float) -> PoolSignals:
        """Return the samples that have arrived by `now` since the last tick; an outage loses those of its time.

        Prometheus returns the last sample of a pod that has no later one again, as to any query of it.
        """
        if any(start <= now < end for start, end in self._loss.outages):
            self._pending, self._newest = [], {}
            return PoolSignals(SignalSource.NONE, problem="the metrics store does not respond")
        edge = EPOCH + now - self._loss.delay_seconds
        kept = tuple(sample for sample in self._pending if sample.time <= edge)
        self._pending = [sample for sample in self._pending if sample.time > edge]
        lost = self._random.random(len(kept)) < self._loss.share
        fresh = tuple(sample for sample, gone in zip(kept, lost, strict=True) if not gone)
        repeated = () if self.at_once else self._repeated(kept, lost.tolist())
        return PoolSignals(self._loss.source, (*repeated, *fresh), queried_at=EPOCH + now)

    def _repeated(self, kept: Sequence[PodSample], lost: Sequence[bool]) -> Iterator[PodSample]:
        """Return earlier samples that are still the last ones, and keep the new ones."""
        earlier = dict(self._newest)
        for sample, gone in zip(kept, lost, strict=True):
            self._newest.pop(sample.uid, None)
            if not gone:
                self._newest[sample.uid] = sample
        return (each for each in self._newest.values() if each is earlier.get(each.uid))

    def _of_loading(self, pod: SimulatedPod, now: float) -> PodSample:
        """Return the sample of a pod without a model: its counters are 0, and it has no duty and no bound on the cap."""
        return PodSample(
            uid=pod.uid,
            time=EPOCH + now,
            waiting=0.0,
            running=0.0,
            requests_received=0.0,
            rows_received=0.0,
            curve=CurveSums(),
            batch_duration_buckets=pod.engine.buckets(),
            out_of_memory_splits=0.0,
            batch_cap=float(pod.cap),
            requests_settled=0.0,
            request_duration_buckets=pod.engine.durations(),
        )

    def _sample(self, pod: SimulatedPod, now: float) -> PodSample:
        busy = pod.engine.busy_seconds(now)
        before, known = self._busy.get(pod.uid, (now - TICK_SECONDS, busy))
        duty = (busy - known) / max(now - before, TICK_SECONDS / 2)
        self._busy[pod.uid] = (now, busy)
        return PodSample(
            uid=pod.uid,
            time=EPOCH + now,
            waiting=pod.waiting(),
            running=float(pod.engine.running(now) + pod.engine.lines_running(now)),
            requests_received=pod.received,
            rows_received=pod.received,
            curve=pod.engine.curve(),
            batch_duration_buckets=pod.engine.buckets(),
            out_of_memory_splits=0.0,
            batch_cap=float(pod.cap),
            batch_cap_bound=float(self._bound),
            gpu_utilization=min(max(duty, 0.0), 1.0),
            duty_source=UtilizationSource.NVML,
            requests_settled=float(pod.settled()),
            request_duration_buckets=pod.engine.durations(),
            generation=pod.generation(),
        )


def law_input(
    scenario: Scenario,
    fleet: SimulatedFleet,
    signals: PoolSignals,
    now: float,
    *,
    limited: bool = False,
) -> LawInput:
    """Return one tick of the pool as the operator's own law reads it; `limited`: it has fewer replicas than requested."""
    return LawInput(
        settings=scenario.settings,
        signals=signals,
        pods=tuple(law_pod(pod, scenario.settings.size_max, now) for pod in fleet.live),
        replicas=len(fleet.staying(now)),
        cap=fleet.cap,
        limited=limited,
        spread=SPREAD[scenario.routing],
    )


def law_pod(pod: SimulatedPod, bound: int, now: float) -> LawPod:
    """Return a pod as the operator's own law reads it."""
    return LawPod(
        uid=pod.uid,
        ready=pod.accepts(now),
        terminating=pod.terminating_since <= now,
        acknowledged=True,
        cap_bound=bound if pod.ready_at <= now else None,
        created=EPOCH + pod.created,
        cap=pod.cap if pod.ready_at <= now else None,
        scheduled_since=EPOCH + pod.created,
        ready_since=EPOCH + pod.ready_at if pod.ready_at <= now else None,
        revision=pod.variant or "simulated",
    )
