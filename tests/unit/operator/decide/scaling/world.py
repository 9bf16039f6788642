"""A pool on fake time: fluid arrivals, whole batches, scrapes every 5 s, cold starts, and a law in charge.

Each replica takes its even share of the arrivals and serves greedily: a batch of b rows (one row a
request) takes a + c*b seconds. Without a seed nothing is random; with one, arrivals are Poisson and batch times vary by
5 %, and a story still always ends the same way.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import exp, inf
from random import Random
from typing import Any

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawPod, RequestSpread
from penstock_operator.decide.scaling.signals.counters import SUMS, CurveSumsTuple
from penstock_operator.decide.scaling.utilization_band.law import UtilizationBand
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import (
    OfferedDemand,
    PodSample,
    PoolSignals,
    SignalSource,
    UtilizationSource,
)

TICK = 5.0
BOUNDS = (
    0.01,
    0.02,
    0.04,
    0.05,
    0.065,
    0.08,
    0.1,
    0.125,
    0.15,
    0.2,
    0.25,
    0.3,
    0.4,
    0.5,
    0.65,
    0.8,
    1.0,
    2.0,
    inf,
)

SETTINGS = LawSettings(
    objective_milliseconds=1000,
    size_min=1,
    size_max=64,
    max_queue_delay_milliseconds=5,
    min_replicas=1,
    max_replicas=8,
    low_percent=50,
    high_percent=90,
    target_per_replica=4,
    stabilization_seconds=60,
    max_percent_per_minute=100,
)


@dataclass
class Replica:
    """One pod: its queue, its batch, its counters."""

    uid: str
    created: float
    ready_at: float
    cap: int
    cap_bound: int | None = None
    waiting: float = 0.0
    running: int = 0
    free_at: float = 0.0
    started_at: float = 0.0
    received: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 6)
    counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))

    def serve(self, start: float, end: float, rate: float, curve: Callable[[int], float]) -> None:
        """Live through [start, end) while requests come at `rate` a second."""
        at = max(start, self.ready_at)
        while at < end:
            if self.running:
                until = min(self.free_at, end)
                self._receive(rate * (until - at))
                at = until
                if at >= self.free_at:
                    self._settle()
            elif self.waiting >= 1:
                self.running = min(self.cap, int(self.waiting))
                self.waiting -= self.running
                self.started_at, self.free_at = at, at + curve(self.running)
            else:
                pause = (1 - self.waiting) / rate if rate > 0 else inf
                until = min(at + pause + 1e-9, end)
                self._receive(rate * (until - at))
                at = until

    def _receive(self, rows: float) -> None:
        self.waiting += rows
        self.received += rows

    def note(self, rows: int, a: float, c: float) -> None:
        """Count a batch that no request was in."""
        self._count(float(rows), a + c * rows)

    def _count(self, b: float, t: float) -> None:
        for i, grown in enumerate((1.0, b, b * b, t, b * t, t * t)):
            self.sums[i] += grown

    def _settle(self) -> None:
        b, t = float(self.running), self.free_at - self.started_at
        self._count(b, t)
        self.counts[bisect_left(BOUNDS, t)] += 1
        self.running = 0

    def sample(self, now: float) -> PodSample:
        """Return what a scrape would find."""
        return PodSample(
            uid=self.uid,
            time=now,
            waiting=self.waiting,
            running=float(self.running),
            requests_received=self.received,
            rows_received=self.received,
            curve=CurveSums.model_validate(dict(zip(SUMS, self.sums, strict=True))),
            batch_duration_buckets=tuple(
                (bound, float(sum(self.counts[: i + 1]))) for i, bound in enumerate(BOUNDS)
            ),
            out_of_memory_splits=0.0,
            batch_cap=float(self.cap),
            duty_source=UtilizationSource.ENGINE,
        )


@dataclass
class World:
    """A pool, its load, and the law that turns its valves."""

    settings: LawSettings = SETTINGS
    rate: float = 0.0
    replicas: int = 1
    cap: int | None = None
    a: float = 0.040
    c: float = 0.005
    cold_start: float = 30.0
    source: SignalSource = SignalSource.PROMETHEUS
    hidden: Callable[[Replica], bool] = lambda _: False
    placed: Callable[[Replica], bool] = lambda _: True
    """Whether a node has room for it; one without room never becomes Ready."""
    distort: Callable[[PodSample], PodSample] = lambda sample: sample
    acknowledges: bool = True
    obey: bool = True
    """Whether decisions are carried out; if not, the law only recommends."""
    law: Law[Any] = field(default_factory=UtilizationBand)
    now: float = 10_000.0
    pods: list[Replica] = field(default_factory=list)
    state: Any = None
    decisions: list[Decision] = field(default_factory=list)
    created_pods: int = 0
    duty_says: float | None = None
    seed: int | None = None
    warms_up: bool = False
    """Whether a pod measures batches of 1, 2, 4 ... size.max before it is Ready."""
    offered: OfferedDemand | None = None
    """Demand that the pool's gateway counted."""
    spread: RequestSpread = RequestSpread.BY_CONNECTION
    fixed_cap: int | None = None
    """The cap of batching mode Recommend or Fixed; None: mode Auto."""

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a story, not a secret
        self._start(self.replicas, ready_at=self.now)

    def _start(self, number: int, ready_at: float) -> None:
        for _ in range(number):
            self.created_pods += 1
            created = self.now - 1000 if ready_at == self.now else self.now
            cap = self.cap or self.settings.size_min
            pod = Replica(f"pod-{self.created_pods}", created, ready_at, cap)
            self.pods.append(pod)
            if self.warms_up:
                self._warm_up(pod)

    def _warm_up(self, pod: Replica) -> None:
        rows = 1
        while rows < 2 * self.settings.size_max:
            pod.note(min(rows, self.settings.size_max), self.a, self.c)
            rows *= 2

    @property
    def ready(self) -> list[Replica]:
        """The pods that serve."""
        return [pod for pod in self.pods if pod.ready_at <= self.now]

    @property
    def last(self) -> Decision:
        """The newest decision."""
        return self.decisions[-1]

    def run(self, seconds: float) -> "World":
        """Live for so long, ticking every 5 s."""
        for _ in range(round(seconds / TICK)):
            serving = [pod for pod in self.pods if pod.ready_at < self.now + TICK]
            for pod in serving:
                self._serve(pod, self.rate / len(serving))
            self.now += TICK
            self.tick()
        return self

    def _serve(self, pod: Replica, share: float) -> None:
        if self.seed is None:
            pod.serve(self.now, self.now + TICK, share, lambda b: self.a + self.c * b)
            return
        for i in range(50):
            start, slice_ = self.now + i * TICK / 50, TICK / 50
            came = self._poisson(share * slice_)
            pod.serve(
                start,
                start + slice_,
                came / slice_,
                lambda b: (self.a + self.c * b) * self.random.uniform(0.95, 1.05),
            )

    def _poisson(self, mean: float) -> int:
        """Return a Poisson number (Knuth)."""
        limit, product, number = exp(-mean), self.random.random(), 0
        while product > limit:
            product *= self.random.random()
            number += 1
        return number

    def tick(self) -> Decision:
        """Let the law decide once, and carry it out."""
        if self.state is None:
            self.state = self.law.initial(self.now)
        self.state, decision = self.law.step(self.state, self.observed(), self.now)
        self.decisions.append(decision)
        if self.obey:
            self._carry_out(decision)
        return decision

    def observed(self) -> LawInput:
        """Return what the law sees."""
        samples = tuple(
            self.distort(replace(pod.sample(self.now), gpu_utilization=self.duty_says))
            for pod in self.ready
            if not self.hidden(pod)
        )
        if self.duty_says is not None:
            samples = tuple(
                replace(sample, duty_source=UtilizationSource.NVML) for sample in samples
            )
        absent = self.source is SignalSource.NONE
        return LawInput(
            settings=self.settings,
            signals=PoolSignals(self.source, () if absent else samples),
            pods=tuple(
                LawPod(
                    uid=pod.uid,
                    ready=pod.ready_at <= self.now,
                    terminating=False,
                    acknowledged=self.acknowledges and pod.cap == self.cap,
                    cap_bound=pod.cap_bound,
                    created=pod.created,
                    cap=pod.cap,
                    scheduled_since=pod.created if self.placed(pod) else None,
                    ready_since=pod.ready_at if pod.ready_at <= self.now else None,
                )
                for pod in self.pods
            ),
            replicas=self.replicas,
            cap=self.cap,
            offered=self.offered,
            spread=self.spread,
            fixed_cap=self.fixed_cap,
        )

    def _carry_out(self, decision: Decision) -> None:
        self.cap = decision.cap if self.fixed_cap is None else self.fixed_cap
        for pod in self.pods:
            pod.cap = min(self.cap, pod.cap_bound or self.cap)
        if decision.replicas > self.replicas:
            self._start(decision.replicas - self.replicas, self.now + self.cold_start)
        elif decision.replicas < self.replicas:
            self.pods.sort(key=lambda pod: pod.ready_at)
            for gone in self.pods[decision.replicas :]:
                self.pods[0].waiting += gone.waiting
            self.pods = self.pods[: decision.replicas]
        self.replicas = decision.replicas

    def service_sums(self) -> CurveSumsTuple:
        """Return the first pod's service-curve sums."""
        return CurveSumsTuple(**(self.pods[0].sample(self.now).curve or CurveSums()).model_dump())

    def counts(self) -> list[int]:
        """Return the wanted replica count of every tick."""
        return [decision.replicas for decision in self.decisions]

    def caps(self) -> list[int]:
        """Return the wanted cap of every tick."""
        return [decision.cap for decision in self.decisions]
