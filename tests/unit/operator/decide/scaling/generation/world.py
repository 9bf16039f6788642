"""A pool that generates text, on fake time: continuous batching, a cache, scrapes every 5 s, cold starts, and the law in charge.

Each replica takes every n-th request. A step feeds prompts up to a budget of tokens and every running sequence its next
one, and takes a + p*prefill/256 + d*rows + k*context/4096 seconds.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from typing import Any

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.law import Decision, LawInput, LawPod
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import GenerationSample, PodSample, PoolSignals, SignalSource
from penstock_simulator.pods.step_time import StepModel

TICK = 5.0
BUDGET = 512
BOUNDS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.065, 0.08, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 20.0, inf)
SETTINGS = LawSettings(
    objective_milliseconds=None,
    size_min=1,
    size_max=64,
    max_queue_delay_milliseconds=5,
    min_replicas=1,
    max_replicas=20,
    low_percent=50,
    high_percent=90,
    target_per_replica=4,
    stabilization_seconds=60,
    max_percent_per_minute=100,
    first_token_milliseconds=2000,
    output_token_milliseconds=50,
)


DEVICE = StepModel(a=0.015, p=0.010, d=0.0006, k=0.004, cache_tokens=60_000)


@dataclass
class Sequence:
    """One answer."""

    arrived: float
    prompt: int
    left: int
    fed: int = 0
    first: float = 0.0
    tokens: int = 0


def sums_of(prefill: float, rows: float, context: float, seconds: float) -> list[float]:
    """Return the 15 products of one step."""
    x = (1.0, prefill / 256, rows, context / 4096, seconds)
    return [x[i] * x[j] for i in range(5) for j in range(i, 5)]


@dataclass
class Replica:
    """One pod."""

    uid: str
    created: float
    ready_at: float
    cap: int
    device: StepModel
    pause: float = 0.0
    """Between steps, as a share of a step."""
    warm_up: tuple[float, ...] | None = None
    waiting: list[Sequence] = field(default_factory=list)
    running: list[Sequence] = field(default_factory=list)
    received: float = 0.0
    generated: float = 0.0
    at: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0] * 15)
    whole: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    first_tokens: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    tokens: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))

    def warm(self, most: int) -> None:
        """Time steps of 1, 2, 4 .. rows over two contexts, and two prompts."""
        total = [0.0] * 15
        shapes = [(32, 0, 32), (256, 0, 256)]
        rows = 1
        while rows <= most:
            shapes += [(0, rows, 17 * rows), (0, rows, 193 * rows)]
            rows *= 2
        for shape in shapes:
            products = sums_of(*shape, self.device.seconds(*shape))
            total = [old + new for old, new in zip(total, products, strict=True)]
        self.warm_up = tuple(total)

    def held(self) -> int:
        """Return the tokens that running sequences hold."""
        return sum(sequence.fed + sequence.tokens for sequence in self.running)

    def live(self, until: float, noise: Callable[[], float]) -> None:
        """Step until `until`."""
        while self.at < until:
            self._admit()
            if not self.running:
                self.at = until
                return
            self._step(noise())

    def _admit(self) -> None:
        tokens = self.held()
        while self.waiting and len(self.running) < self.cap:
            size = self.waiting[0].prompt + self.waiting[0].left
            if tokens + size > self.device.cache_tokens:
                return
            tokens += size
            self.running.append(self.waiting.pop(0))

    def _step(self, noise: float) -> None:
        decoding = [sequence for sequence in self.running if sequence.fed == sequence.prompt]
        prefill, context, budget = 0, 0, BUDGET - len(decoding)
        for sequence in self.running:
            if sequence.fed < sequence.prompt and budget > 0:
                chunk = min(budget, sequence.prompt - sequence.fed)
                sequence.fed, prefill, budget = (
                    sequence.fed + chunk,
                    prefill + chunk,
                    budget - chunk,
                )
                context += sequence.fed
        context += sum(sequence.fed + sequence.tokens for sequence in decoding)
        seconds = self.device.seconds(prefill, len(decoding), context) * noise
        self.at += seconds * (1 + self.pause)
        products = sums_of(prefill, len(decoding), context, seconds)
        self.sums = [old + new for old, new in zip(self.sums, products, strict=True)]
        for sequence in [sequence for sequence in self.running if sequence.fed == sequence.prompt]:
            self._emit(sequence)

    def _emit(self, sequence: Sequence) -> None:
        sequence.tokens, sequence.left, self.generated = (
            sequence.tokens + 1,
            sequence.left - 1,
            self.generated + 1,
        )
        if sequence.tokens == 1:
            sequence.first = self.at
        if sequence.left == 0:
            self.running.remove(sequence)
            self.whole[bisect_left(BOUNDS, self.at - sequence.arrived)] += 1
            self.first_tokens[bisect_left(BOUNDS, sequence.first - sequence.arrived)] += 1
            if sequence.tokens > 1:
                each = (self.at - sequence.first) / (sequence.tokens - 1)
                self.tokens[bisect_left(BOUNDS, each)] += 1

    def sample(self, now: float) -> PodSample:
        """Return what a scrape would find."""
        return PodSample(
            uid=self.uid,
            time=now,
            waiting=float(len(self.waiting)),
            running=float(len(self.running)),
            requests_received=self.received,
            rows_received=self.received,
            curve=CurveSums(),
            requests_settled=float(sum(self.whole)),
            request_duration_buckets=cumulative(self.whole),
            gpu_utilization=1.0 if self.running else 0.0,
            generation=GenerationSample(
                epoch=1,
                sums=tuple(self.sums),
                warm_up=self.warm_up,
                generated_tokens=self.generated,
                cache_usage=self.held() / self.device.cache_tokens,
                first_token_buckets=cumulative(self.first_tokens),
                output_token_buckets=cumulative(self.tokens),
            ),
        )


def cumulative(counts: list[int]) -> tuple[tuple[float, float], ...]:
    """Return (upper bound, cumulative count)."""
    return tuple((bound, float(sum(counts[: i + 1]))) for i, bound in enumerate(BOUNDS))


@dataclass
class Pool:
    """Replicas, their load, and the law that turns both valves."""

    rate: float
    """Requests a second."""
    settings: LawSettings = SETTINGS
    prompt: int = 200
    answer: int = 100
    replicas: int = 1
    device: StepModel = DEVICE
    cold_start: float = 30.0
    warms_up: bool = True
    stalls: float = 0.0
    """Share of steps that take eight times as long."""
    pause: float = 0.0
    seed: int = 1
    now: float = 10_000.0
    cap: int | None = None
    pods: list[Replica] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    state: Any = None
    created_pods: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)  # noqa: S311 - a story, not a secret
        self.law = CapacityAtObjective()
        self.due = self.now
        self._start(self.replicas, self.now)

    @property
    def last(self) -> Decision:
        """The newest decision."""
        return self.decisions[-1]

    @property
    def ready(self) -> list[Replica]:
        """The pods that serve."""
        return [pod for pod in self.pods if pod.ready_at <= self.now]

    def run(self, seconds: float) -> "Pool":
        """Live for so long, ticking every 5 s."""
        for _ in range(round(seconds / TICK)):
            until = self.now + TICK
            self._arrive(until)
            for pod in self.ready:
                pod.at = max(pod.at, self.now)
                pod.live(until, self._noise)
            self.now = until
            self.tick()
        return self

    def _noise(self) -> float:
        factor = self.random.uniform(0.97, 1.03)
        return 8 * factor if self.stalls and self.random.random() < self.stalls else factor

    def _arrive(self, until: float) -> None:
        serving = self.ready
        while self.due < until:
            pod = serving[self.created_pods % len(serving)]
            self.created_pods += 1
            answer = max(1, round(self.random.expovariate(1 / self.answer)))
            pod.waiting.append(Sequence(self.due, self.prompt, answer))
            pod.received += 1
            self.due += self.random.expovariate(self.rate) if self.rate > 0 else inf

    def tick(self) -> Decision:
        """Let the law decide once, and carry it out."""
        if self.state is None:
            self.state = self.law.initial(self.now)
        self.state, decision = self.law.step(self.state, self.observed(), self.now)
        self.decisions.append(decision)
        self.cap = decision.cap
        for pod in self.pods:
            pod.cap = decision.cap
        self._start(decision.replicas - len(self.pods), self.now + self.cold_start)
        while len(self.pods) > decision.replicas:
            gone = self.pods.pop()
            self.pods[0].waiting += gone.waiting
        return decision

    def observed(self) -> LawInput:
        """Return what the law sees."""
        return LawInput(
            settings=self.settings,
            signals=PoolSignals(
                SignalSource.PROMETHEUS, tuple(pod.sample(self.now) for pod in self.ready)
            ),
            pods=tuple(self._seen(pod) for pod in self.pods),
            replicas=len(self.pods),
            cap=self.cap,
        )

    def _seen(self, pod: Replica) -> LawPod:
        ready = pod.ready_at <= self.now
        return LawPod(
            uid=pod.uid,
            ready=ready,
            terminating=False,
            acknowledged=True,
            cap_bound=None,
            created=pod.created,
            cap=pod.cap,
            scheduled_since=pod.created,
            ready_since=pod.ready_at if ready else None,
            revision="one",
        )

    def _start(self, number: int, ready_at: float) -> None:
        for _ in range(number):
            created = self.now - 1000 if ready_at == self.now else self.now
            name = f"pod-{len(self.pods)}-{self.now:.0f}-{self.created_pods}"
            pod = Replica(name, created, ready_at, self.cap or 1, self.device, self.pause)
            if self.warms_up:
                pod.warm(self.settings.size_max)
            self.pods.append(pod)
