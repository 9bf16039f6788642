"""Simulated scraping: samples reach the law late, and some are lost. Pure."""

from collections import deque

import numpy as np

from penstock_operator.decide.scaling.law import LawInput, LawPod
from penstock_operator.observed import PodSample, PoolSignals, SignalSource, UtilizationSource
from penstock_simulator.pods.fleet import SimulatedFleet
from penstock_simulator.pods.pod import SimulatedPod
from penstock_simulator.scenario import EPOCH, TICK_SECONDS, Scenario


class Scraper:
    """Takes a round of samples every tick and delivers it after its delay."""

    def __init__(self, scenario: Scenario) -> None:
        self._loss = scenario.loss
        self._bound = scenario.settings.size_max
        self._random = np.random.default_rng([scenario.seed, 4])
        self._rounds: deque[tuple[float, tuple[PodSample, ...]]] = deque()
        self._busy: dict[str, float] = {}

    def scrape(self, fleet: SimulatedFleet, now: float) -> None:
        """Take a sample of every pod that serves, draining ones too."""
        serving = [pod for pod in fleet.live if pod.ready_at <= now]
        self._rounds.append((now, tuple(self._sample(pod, now) for pod in serving)))
        self._busy = {pod.uid: self._busy[pod.uid] for pod in serving}

    def signals(self, now: float) -> PoolSignals:
        """Return the newest round that has arrived by `now`; nothing at all in an outage."""
        if any(start <= now < end for start, end in self._loss.outages):
            return PoolSignals(SignalSource.NONE, problem="the metrics store does not respond")
        due: tuple[PodSample, ...] = ()
        while self._rounds and self._rounds[0][0] <= now - self._loss.delay_seconds:
            due = self._rounds.popleft()[1]
        kept = due
        if self._loss.share > 0:
            lost = self._random.random(len(due)) < self._loss.share
            kept = tuple(sample for sample, gone in zip(due, lost, strict=True) if not gone)
        return PoolSignals(SignalSource.PROMETHEUS, kept, queried_at=EPOCH + now)

    def _sample(self, pod: SimulatedPod, now: float) -> PodSample:
        busy = pod.engine.busy_seconds(now)
        duty = (busy - self._busy.get(pod.uid, busy)) / TICK_SECONDS
        self._busy[pod.uid] = busy
        return PodSample(
            uid=pod.uid,
            time=EPOCH + now,
            waiting=pod.waiting(),
            running=float(pod.engine.running(now)),
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
        pods=tuple(_law_pod(pod, scenario.settings.size_max, now) for pod in fleet.live),
        replicas=len(fleet.staying(now)),
        cap=fleet.cap,
        limited=limited,
    )


def _law_pod(pod: SimulatedPod, bound: int, now: float) -> LawPod:
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
        revision="simulated",
    )
