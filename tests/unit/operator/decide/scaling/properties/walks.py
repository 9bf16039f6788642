"""Pools that walk at random: demand, skew, resets, NaN, gaps and NotReady pods, with a law in charge of both valves."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import inf, nan
from random import Random
from typing import Any

from hypothesis import strategies as st

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.law import Decision, Law, LawInput, LawPod
from penstock_operator.decide.scaling.signals.counters import SUMS
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import (
    GenerationSample,
    PodSample,
    PoolSignals,
    SignalSource,
    UtilizationSource,
)
from tests.unit.operator.decide.scaling.properties.values import SETTINGS

TICK = 5.0
START = 1_700_000_000.0
MAX_PODS = 24
"""Maximum simulated pods; a law may request more, which are never created."""
ODD = (nan, inf, -inf, -1.0, 0.0, 5e-324, 1e-300, 1e15, 1e16, 1e308)


@dataclass(frozen=True)
class Walk:
    """What a pool walks through, and how."""

    seed: int
    settings: LawSettings
    ticks: int
    pods: int
    skew: float
    """0: even; 1: one pod has it all."""
    rate: float
    """Rows a second of the pool, at first."""
    a: float
    c: float
    """t(b) = a + c*b; c may be 0, and a batch then costs what one row does."""
    trouble: float
    """Share of samples with an odd value, of lost ones, of restarts, and of pods that turn NotReady."""
    generates: bool


WALKS = st.builds(
    Walk,
    seed=st.integers(0, 2**32),
    settings=SETTINGS,
    ticks=st.integers(5, 60),
    pods=st.one_of(st.integers(1, 4), st.integers(1, MAX_PODS)),
    skew=st.sampled_from((0.0, 0.0, 0.5, 0.99, 1.0)),
    rate=st.sampled_from((0.0, 0.1, 10.0, 300.0, 1e5)),
    a=st.sampled_from((0.0, 1e-4, 0.1, 30.0)),
    c=st.sampled_from((0.0, 1e-6, 0.01, 1.0)),
    trouble=st.sampled_from((0.0, 0.0, 0.02, 0.2)),
    generates=st.booleans(),
)


@dataclass
class WalkingPod:
    """One pod, and what it has counted."""

    uid: str
    created: float
    ready_at: float
    rows: float = 0.0
    waiting: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 6)
    steps: list[float] = field(default_factory=lambda: [0.0] * 15)
    down_until: float = 0.0

    def serve(self, walk: Walk, rows: float, cap: int, random: Random) -> None:
        """Receive rows for a tick, and serve as many as it can."""
        self.rows += rows
        self.waiting += rows
        batch = min(max(self.waiting, 1.0), float(cap))
        seconds = max((walk.a + walk.c * batch) * random.choice((0.9, 1.0, 1.1)), 1e-5)
        batches = min(TICK / seconds, self.waiting / batch)
        self.waiting -= batches * batch
        each = (1.0, batch, batch**2, seconds, batch * seconds, seconds**2)
        self.sums = [old + batches * new for old, new in zip(self.sums, each, strict=True)]
        x = (1.0, batch / 8, batch, batch / 4, seconds)
        products = [x[i] * x[j] for i in range(5) for j in range(i, 5)]
        self.steps = [old + batches * new for old, new in zip(self.steps, products, strict=True)]

    def restart(self) -> None:
        """Begin to count at 0."""
        self.rows, self.waiting = 0.0, 0.0
        self.sums, self.steps = [0.0] * 6, [0.0] * 15

    def sample(self, now: float, walk: Walk) -> PodSample:
        """Return what a scrape finds."""
        generation = GenerationSample(1, tuple(self.steps), None, self.steps[2], 0.4)
        sums: dict[str, Any] = dict(zip(SUMS, self.sums, strict=True))
        return PodSample(
            self.uid, now, self.waiting, min(self.waiting, 8.0), self.rows, self.rows,
            CurveSums(**sums),
            batch_duration_buckets=((0.1, self.sums[0] / 2), (inf, self.sums[0])),
            out_of_memory_splits=0.0, gpu_utilization=0.5, duty_source=UtilizationSource.NVML,
            requests_settled=self.sums[1],
            request_duration_buckets=((0.5, self.sums[1] / 2), (inf, self.sums[1])),
            generation=generation if walk.generates else None,
        )  # fmt: skip


@dataclass
class WalkingPool:
    """The pods of a walk, on fake time."""

    walk: Walk
    now: float = START
    created_pods: int = 0
    pods: list[WalkingPod] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = Random(self.walk.seed)  # noqa: S311 - a story, not a secret
        self.rate = self.walk.rate
        for _ in range(self.walk.pods):
            self._add(0.0)

    def _add(self, start: float) -> None:
        self.created_pods += 1
        self.pods.append(WalkingPod(f"pod-{self.created_pods}", self.now, self.now + start))

    def scale(self, replicas: int) -> None:
        """Apply a decision, within MAX_PODS; one start in eight never ends."""
        wanted = min(replicas, MAX_PODS)
        del self.pods[wanted:]
        while len(self.pods) < wanted:
            self._add(self.random.choice((5.0, 30.0, 60.0, 60.0, 60.0, 90.0, 200.0, inf)))

    def tick(self, cap: int) -> PoolSignals:
        """Simulate a tick; return the samples at its end."""
        random, walk = self.random, self.walk
        self.now += random.choice((TICK, TICK, TICK, TICK, 7.0)) if walk.trouble else TICK
        self.rate = min(self.rate * random.choice((0.7, 1.0, 1.0, 1.3)), 1e7)
        ready = [pod for pod in self.pods if self.is_ready(pod)]
        for at, pod in enumerate(ready):
            even = (1 - walk.skew) / len(ready)
            share = even + (walk.skew if at == 0 else 0.0)
            pod.serve(walk, self.rate * TICK * share, cap, random)
            if random.random() < walk.trouble:
                random.choice((pod.restart, lambda pod=pod: self._take_down(pod)))()
        if random.random() < walk.trouble:
            return PoolSignals(SignalSource.NONE, problem="a gap")
        samples = [pod.sample(self.now, walk) for pod in ready if random.random() >= walk.trouble]
        return PoolSignals(SignalSource.PODS, tuple(map(self._distorted, samples)))

    def is_ready(self, pod: WalkingPod) -> bool:
        """Return whether a pod is Ready."""
        return pod.ready_at <= self.now and pod.down_until <= self.now

    def _take_down(self, pod: WalkingPod) -> None:
        pod.down_until = self.now + 20

    def _distorted(self, sample: PodSample) -> PodSample:
        if self.random.random() >= self.walk.trouble:
            return sample
        names = ("waiting", "running", "requests_received", "rows_received", "gpu_utilization",
                 "requests_settled", "time")  # fmt: skip
        odd: dict[str, Any] = {self.random.choice(names): self.random.choice(ODD)}
        return replace(sample, **odd)

    def seen(self) -> tuple[LawPod, ...]:
        """Return the pods as a law sees them."""
        return tuple(
            LawPod(
                pod.uid, ready=self.is_ready(pod), terminating=False, acknowledged=True,
                cap_bound=None, created=pod.created, scheduled_since=pod.created,
                ready_since=pod.ready_at if self.is_ready(pod) else None, revision="one",
            )
            for pod in self.pods
        )  # fmt: skip


def decided(law: Law[Any], walk: Walk) -> Iterator[tuple[Any, LawInput, Decision, float]]:
    """Walk; yield the state, the input and the decision of each tick."""
    pool, state = WalkingPool(walk), law.initial(START)
    replicas, cap = walk.pods, None
    for _ in range(walk.ticks):
        signals = pool.tick(cap or 1)
        seen = LawInput(walk.settings, signals, pool.seen(), replicas, cap)
        state, decision = law.step(state, seen, pool.now)
        yield state, seen, decision, pool.now
        replicas, cap = decision.replicas, decision.cap
        pool.scale(replicas)


def walked(law: Law[Any], walk: Walk) -> Iterator[tuple[Any, float]]:
    """Walk; yield the state after each tick."""
    for state, _, _, now in decided(law, walk):
        yield state, now
