"""Rounds of signals decoded from bytes, which hypothesis draws and shrinks at once. Drawing each field by itself takes hundreds
of times as long as the laws' steps.

Half of the samples continue their pod's counters, so that curves and forecasts exist; in the rest any figure may be absent
or any float.
"""

from dataclasses import dataclass, field, replace
from math import inf, nan
from typing import Any

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.scaling.law import LawPod
from penstock_operator.decide.scaling.signals.counters import SUMS
from penstock_operator.decide.spec.law_settings import Guards, LawSettings
from penstock_operator.observed import GenerationSample, PodSample, SignalSource, UtilizationSource

ODD = (nan, inf, -inf, -1.0, 0.0, 5e-324, 1e-300, 1.0, 7.5, 1e9, 1e15, 1e16, 1e308)
SURE = (*ODD, *(0.001 * 1.08**step for step in range(180)))
"""Up to a thousand."""
NUMBERS = (*SURE, *(None,) * (256 - len(SURE)))
GAUGES = ("waiting", "running", "gpu_utilization")
COUNTERS = ("requests_received", "rows_received", "out_of_memory_splits", "requests_settled")
BOUNDS = (0.05, 0.2, 0.8, inf)
UIDS = ("a", "b", "c", "d")
START = 1000.0
PRODUCTS = 15


@dataclass
class Draws:
    """Choices, one byte each; the bytes are read round and round, each time from another place."""

    data: bytes
    place: int = 0

    def upto(self, most: int) -> int:
        """Return an integer from 0 to `most`."""
        rounds, index = divmod(self.place, len(self.data))
        self.place += 1
        return (self.data[(index + 7 * rounds) % len(self.data)] + rounds) % 256 * (most + 1) // 256

    def one(self, of: Any) -> Any:
        """Return one of a sequence."""
        return of[self.upto(len(of) - 1)]

    def ordered(self, most: int) -> tuple[int, int]:
        """Return two integers from 1 on, the smaller first."""
        low, high = sorted((1 + self.upto(most - 1), 1 + self.upto(most - 1)))
        return low, high

    def maybe(self, value: Any) -> Any:
        """Return the value, or None one time in four."""
        return value if self.upto(3) else None


@dataclass
class Counters:
    """What one pod has counted so far."""

    plain: dict[str, Any] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0.0))
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SUMS, 0.0))
    steps: list[float] = field(default_factory=lambda: [0.0] * PRODUCTS)

    def grow(self, draw: Draws, most: int = 50) -> None:
        """Serve up to `most` batches of one size, at t(b) = 0.1 + 0.01 * b, or about that."""
        batches, rows = float(draw.upto(most)), float(1 + draw.upto(40))
        seconds = (0.1 + 0.01 * rows) * (1 + draw.upto(4) / 10)
        each = (1.0, rows, rows**2, seconds, rows * seconds, seconds**2)
        for name, product in zip(SUMS, each, strict=True):
            self.sums[name] += batches * product
        for name in ("requests_received", "rows_received", "requests_settled"):
            self.plain[name] += batches * rows + draw.upto(min(most, 20))
        x = (1.0, rows / 10, rows, rows / 20, seconds)
        step = [x[i] * x[j] for i in range(5) for j in range(i, 5)]
        self.steps = [old + batches * new for old, new in zip(self.steps, step, strict=True)]


@dataclass(frozen=True)
class Round:
    """One tick's signals and pods, under the settings in force."""

    settings: LawSettings
    source: SignalSource
    samples: tuple[PodSample, ...]
    pods: tuple[LawPod, ...]
    now: float


@dataclass(frozen=True)
class Case:
    """What a pool lives through."""

    data: bytes
    """What it was made from: shown, and enough to make it again."""
    rounds: tuple[Round, ...] = field(repr=False)
    replicas: int
    cap: int | None


def case(data: bytes) -> Case:
    """Return the case that the bytes stand for."""
    draw = Draws(data)
    replicas, cap = draw.upto(30), draw.maybe(1 + draw.upto(99))
    if draw.upto(2):
        return Case(data, tuple(_rounds(draw)), replicas, cap)
    return Case(data, tuple(_quiet_rounds(draw)), len(UIDS) + draw.upto(2), cap)


def _settings(draw: Draws) -> LawSettings:
    (size_min, size_max), (low, high) = draw.ordered(64), draw.ordered(100)
    least, most = draw.ordered(20)
    return LawSettings(
        objective_milliseconds=draw.maybe(draw.one((1, 50, 400, 1000, 3000, 60_000, 3_600_000))),
        size_min=size_min,
        size_max=size_max,
        max_queue_delay_milliseconds=draw.one((0, 5, 300, 60_000)),
        min_replicas=least,
        max_replicas=most,
        low_percent=low,
        high_percent=high,
        target_per_replica=1 + draw.upto(99),
        stabilization_seconds=draw.one((0, 5, 10, 300)),
        max_percent_per_minute=1 + draw.upto(99),
        guards=Guards(
            draw.maybe(1 + draw.upto(99)) if draw.upto(1) else None,
            draw.maybe(1 + draw.upto(99)) if draw.upto(1) else None,
            draw.maybe(1 + draw.upto(99)) if draw.upto(1) else None,
            draw.one((None, 0, 5, 300)),
        ),
        first_token_milliseconds=draw.one((None, None, 1, 500, 60_000)),
        output_token_milliseconds=draw.one((None, None, 1, 50, 3_000)),
    )


def _rounds(draw: Draws) -> list[Round]:
    counters, now, rounds = {uid: Counters() for uid in UIDS}, START, []
    settings = _settings(draw)
    usual, generates = draw.one(tuple(SignalSource)), not draw.upto(2)
    for _ in range(1 + draw.upto(23)):
        settings = settings if draw.upto(5) else _settings(draw)
        now += draw.one((0.0, 0.1, 5.0, 5.0, 5.0, 5.0, 7.5, 30.0))
        source = usual if draw.upto(7) else draw.one(tuple(SignalSource))
        uids = UIDS[: draw.upto(4)]
        samples = tuple(
            _sample(draw, draw.one(UIDS), counters, now, generates=generates)
            for _ in range(draw.upto(8))
        )
        rounds.append(Round(settings, source, samples, tuple(_pod(draw, uid) for uid in uids), now))
    return rounds


def _quiet_rounds(draw: Draws) -> list[Round]:
    """Return the rounds of a pool with low demand, some of whose pods stop publishing one after another."""
    settings, counters, rounds = _hasty(draw), {uid: Counters() for uid in UIDS}, []
    most, generates = draw.one((0, 2, 10, 50)), not draw.upto(3)
    last_round = {uid: draw.one((24, 24, 24, 0, 4, 8, 12)) for uid in UIDS}
    pods = tuple(_pod(draw, uid)._replace(ready=True, revision=None) for uid in UIDS)
    for index in range(8 + draw.upto(16)):
        settings = settings if draw.upto(11) else _hasty(draw)
        now = START + 5 * index
        for counter in counters.values():
            counter.grow(draw, most)
        samples = tuple(
            _sound(draw, uid, counter, now, generates=generates)
            for uid, counter in counters.items()
            if index < last_round[uid]
        )
        rounds.append(Round(settings, SignalSource.PODS, samples, pods, now))
    return rounds


def _hasty(draw: Draws) -> LawSettings:
    hold = draw.one((0, 5, 20))
    return replace(
        _settings(draw),
        min_replicas=1,
        max_replicas=20,
        guards=Guards(stabilization_seconds=hold),
        stabilization_seconds=hold,
        max_percent_per_minute=100,
    )


def _sample(
    draw: Draws, uid: str, counters: dict[str, Counters], now: float, *, generates: bool
) -> PodSample:
    counters[uid].grow(draw)
    if draw.upto(1):
        return _sound(draw, uid, counters[uid], now - draw.upto(3), generates=generates)
    return PodSample(
        uid,
        draw.one((now, now - 20, now + 30, 0.0, *ODD)),
        **{name: draw.one(NUMBERS) for name in (*GAUGES, *COUNTERS)},
        curve=draw.maybe(CurveSums(**{name: draw.one(SURE) for name in SUMS})),
        batch_duration_buckets=tuple((draw.one(SURE), draw.one(SURE)) for _ in range(draw.upto(4))),
        request_duration_buckets=tuple(
            (draw.one(SURE), draw.one(SURE)) for _ in range(draw.upto(4))
        ),
        duty_source=draw.maybe(draw.one(tuple(UtilizationSource))),
        generation=_odd_steps(draw) if generates else None,
    )


def _sound(draw: Draws, uid: str, counters: Counters, when: float, *, generates: bool) -> PodSample:
    gauges = (draw.upto(40), draw.upto(40), draw.upto(100) / 100)
    return PodSample(
        uid,
        when,
        **dict(zip(GAUGES, gauges, strict=True)),
        **counters.plain,
        curve=CurveSums.model_validate(counters.sums),
        batch_duration_buckets=tuple((bound, counters.sums["batches"]) for bound in BOUNDS),
        request_duration_buckets=_in_time(draw, counters.plain["requests_settled"]),
        duty_source=draw.maybe(draw.one(tuple(UtilizationSource))),
        generation=_steps(counters, draw) if generates else None,
    )


def _steps(counters: Counters, draw: Draws) -> GenerationSample:
    return GenerationSample(
        epoch=1,
        sums=tuple(counters.steps),
        warm_up=draw.one((None, (0.0,) * PRODUCTS, tuple(counters.steps))),
        generated_tokens=counters.steps[2],
        cache_usage=draw.maybe(draw.upto(100) / 100),
        output_token_buckets=_in_time(draw, counters.plain["requests_settled"]),
    )


def _odd_steps(draw: Draws) -> GenerationSample:
    return GenerationSample(
        epoch=draw.upto(3),
        sums=tuple(draw.one(SURE) for _ in range(draw.one((0, 14, PRODUCTS, PRODUCTS)))),
        warm_up=draw.maybe(tuple(draw.one(SURE) for _ in range(PRODUCTS))),
        generated_tokens=draw.one(NUMBERS),
        cache_usage=draw.one(NUMBERS),
        first_token_buckets=tuple((draw.one(SURE), draw.one(SURE)) for _ in range(draw.upto(3))),
    )


def _in_time(draw: Draws, settled: float) -> tuple[tuple[float, float], ...]:
    """Return how many requests had ended within each bound: a part of them, and all without one."""
    part = draw.upto(10) / 10
    return tuple((bound, settled if bound == inf else part * settled) for bound in BOUNDS)


def _pod(draw: Draws, uid: str) -> LawPod:
    since = START - 100 + draw.upto(200)
    return LawPod(
        uid=uid,
        ready=bool(draw.upto(7)),
        terminating=not draw.upto(7),
        acknowledged=bool(draw.upto(3)),
        cap_bound=draw.maybe(1 + draw.upto(63)),
        created=draw.maybe(since),
        cap=draw.maybe(1 + draw.upto(63)),
        scheduled_since=draw.maybe(since + draw.upto(60)),
        ready_since=draw.maybe(since + draw.upto(120)),
        revision=draw.one((None, "one", "one", "two")),
    )
