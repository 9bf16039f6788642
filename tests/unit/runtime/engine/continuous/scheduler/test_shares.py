"""What the disciplines and time slicing do to whole streams of requests, on a machine whose steps take time."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Preemption
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan
from tests.unit.runtime.engine.continuous.scheduler.device import (
    Machine,
    a_machine,
    a_sequence,
    limits,
)


def step_seconds(plan: StepPlan) -> float:
    """Return a device's time: 5 ms, and more for prefill and for each row."""
    prefill = sum(row.count for row in plan.rows if row.count > 1)
    return 0.005 + 0.00004 * prefill + 0.0001 * len(plan.rows)


def a_pool(initial_limits: GenerationLimits) -> Machine:
    machine = a_machine(blocks=4096, block_tokens=16, initial_limits=initial_limits)
    machine.exact, machine.seconds = False, step_seconds
    return machine


def serve(machine: Machine, arrivals: list[Sequence], until: float = float("inf")) -> Iterator[int]:
    """Serve `arrivals`, in order of time, stepping; yield how many run after each step."""
    coming = iter(arrivals)
    following = next(coming, None)
    while machine.now < until and (following is not None or machine.live):
        while following is not None and following.request.arrived <= machine.now:
            machine.add(following)
            following = next(coming, None)
        if machine.step():
            yield machine.scheduler.report().running
        elif following is not None:
            machine.now = following.request.arrived


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))]


@dataclass
class Outcome:
    full: float
    """Share of places taken while requests came."""
    short_p99: float
    long_mean: float
    seconds: float


def short_and_long(preemption: Preemption, seed: int) -> Outcome:
    """One in ten answers is very long; the rest are a sentence."""
    chance, now, arrivals = random.Random(seed), 0.0, list[Sequence]()  # noqa: S311 - no secret
    long = set()
    for uid in range(500):
        now += chance.expovariate(14.0)
        if chance.random() < 0.1:
            long.add(uid)
        answer = chance.randint(1100, 1900) if uid in long else chance.randint(8, 32)
        arrivals.append(a_sequence(uid, chance.randint(8, 32), answer, arrived=now))
    machine = a_pool(limits(cap=12, tokens=256, preemption=preemption))
    running = list(serve(machine, arrivals))
    came = {sequence.uid: sequence.request.arrived for sequence in arrivals}
    busy = running[len(running) // 4 : -len(running) // 4]
    waits = [machine.first_token[uid] - at for uid, at in came.items() if uid not in long]
    whole = [machine.finished[uid] - came[uid] for uid in long]
    return Outcome(
        sum(busy) / len(busy) / 12, quantile(waits, 0.99), sum(whole) / len(whole), machine.now
    )


def test_time_slices_save_short_answers_from_very_long_ones() -> None:
    before = short_and_long(Preemption.NEVER, seed=3)
    after = short_and_long(Preemption.TIME_SLICE, seed=3)
    assert before.full >= 0.95
    assert before.short_p99 >= 5 * after.short_p99
    assert after.long_mean <= 1.3 * before.long_mean
    assert after.seconds <= 1.05 * before.seconds


FAIR = limits(cap=8, tokens=128, discipline=Discipline.FAIR_SHARE)


def test_backlogged_tenants_get_equal_shares_of_any_ten_seconds() -> None:
    machine = a_pool(FAIR)
    chance = random.Random(1)  # noqa: S311 - no secret
    arrivals = [a_sequence(uid, 16, chance.randint(20, 60), tenant="much") for uid in range(1500)]
    arrivals += [a_sequence(2000 + uid, 40, 30, tenant="little") for uid in range(900)]
    marks = [
        (machine.now, machine.fed["much"], machine.fed["little"])
        for _ in serve(machine, arrivals, until=45.0)
    ]
    assert machine.scheduler.report().waiting > 100, "both must be backlogged throughout"
    start = 0
    for at, much, little in marks:
        while marks[start][0] < at - 10.0:
            start += 1
        if at >= 10.5:
            shares = (much - marks[start][1], little - marks[start][2])
            assert min(shares) >= 0.9 * max(shares)


def stream(tenant: str, count: int, rate: float, chance: random.Random) -> list[Sequence]:
    """Return requests of one kind that arrive at random, `rate` a second."""
    now, sequences, first = 0.0, list[Sequence](), 10_000 if tenant == "heavy" else 0
    for uid in range(first, first + count):
        now += chance.expovariate(rate)
        sequences.append(a_sequence(uid, 200, 40, tenant=tenant, arrived=now))
    return sequences


def first_tokens(heavy: bool) -> list[float]:
    """Return a light tenant's times to first token, alone or next to one that sends ten times as much."""
    chance = random.Random(5)  # noqa: S311 - no secret
    light = stream("light", 300, 8.0, chance)
    heavy_ones = stream("heavy", 3000, 80.0, chance) if heavy else []
    machine = a_pool(
        limits(
            cap=16,
            tokens=64,
            discipline=Discipline.FAIR_SHARE,
            preemption=Preemption.LOWER_PRIORITY,
        )
    )
    arrivals = sorted(light + heavy_ones, key=lambda sequence: sequence.request.arrived)
    for _ in serve(machine, arrivals, until=light[-1].request.arrived):
        pass
    return [
        machine.first_token[sequence.uid] - sequence.request.arrived
        for sequence in light
        if sequence.uid in machine.first_token
    ]


def test_a_light_tenant_hardly_feels_a_heavy_one() -> None:
    alone, shared = first_tokens(heavy=False), first_tokens(heavy=True)
    assert len(shared) >= 0.98 * len(alone)
    assert quantile(shared, 0.99) <= 1.5 * quantile(alone, 0.99)
