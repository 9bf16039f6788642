"""Whatever the scheduler does, every sequence gets the tokens it would have got alone, and all blocks come back."""

import random

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import Lowering, Preemption
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from tests.unit.runtime.engine.continuous.scheduler.device import (
    RECOMPUTE,
    SWAP,
    VOCABULARY,
    Machine,
    a_machine,
    a_sequence,
    limits,
)


def some_limits(chance: random.Random, generation: int) -> object:
    cap = chance.choice([1, 2, 3, 5, 8])
    return limits(
        cap=cap,
        tokens=chance.choice([cap, 8, 16, 64]),
        discipline=chance.choice(list(Discipline)),
        preemption=chance.choice(list(Preemption)),
        lowering=chance.choice(list(Lowering)),
        generation=generation,
    )


def some_prompt(chance: random.Random, prefixes: list[list[int]]) -> list[int]:
    shared = chance.choice(prefixes[-4:]) if chance.random() < 0.5 else []
    own = [chance.randrange(VOCABULARY) for _ in range(chance.randint(1, 30))]
    return (shared[: chance.randint(0, len(shared))] + own)[:45]


def a_scenario(seed: int, raising: float = 0.0) -> Machine:
    """Run random arrivals, limits, cancellations and choices on a machine short of blocks, whose steps may raise."""
    chance = random.Random(seed)  # noqa: S311 - a scenario, not a secret
    machine = a_machine(
        blocks=chance.choice([20, 28, 48]),
        block_tokens=chance.choice([3, 4]),
        host_blocks=chance.choice([0, 10, 100]),
        depth=chance.choice([0, 1]),
        costs=chance.choice([SWAP, RECOMPUTE]),
        initial_limits=some_limits(chance, 1),  # type: ignore[arg-type]
    )
    machine.raises = lambda: chance.random() < raising
    prefixes = [[chance.randrange(VOCABULARY) for _ in range(16)] for _ in range(2)]
    uid = 0
    for moment in range(120):
        for _ in range(chance.choice([0, 0, 0, 1, 2])):
            prompt, choices = some_prompt(chance, prefixes), chance.choice([1, 1, 1, 3])
            prefixes.append(prompt)
            common = {
                "priority": chance.randint(0, BATCH_CLASS),
                "tenant": chance.choice("abcdef"),
                "arrived": machine.now,
                "request": f"q{uid}",
                "salt": chance.choice(["", "", "s"]),
            }
            answer = chance.randint(1, 60 - len(prompt))
            for choice in range(choices):
                machine.add(a_sequence(uid, prompt, answer, choice=choice, **common))  # type: ignore[arg-type]
                uid += 1
        if chance.random() < 0.1:
            machine.scheduler.set_limits(some_limits(chance, moment + 2), machine.now)  # type: ignore[arg-type]
        if machine.live and chance.random() < 0.05:
            machine.cancel(chance.choice(list(machine.live)))
        machine.step()
    machine.run()
    return machine


@pytest.mark.parametrize("raising", [0.0, 0.1], ids=["all steps run", "some steps raise"])
@pytest.mark.parametrize("seed", range(40))
def test_every_answer_is_the_one_given_alone(seed: int, raising: float) -> None:
    machine = a_scenario(seed, raising)
    report = machine.scheduler.report()
    assert (report.waiting, report.running, report.used_blocks) == (0, 0, 0)
    assert report.free_blocks + report.cached_blocks == machine.info.kv.blocks
    assert machine.scheduler.kv.host_blocks.free == machine.info.kv.host_blocks


def test_the_scenarios_meet_every_way_to_yield() -> None:
    reports = [a_scenario(seed).scheduler.report() for seed in range(12)]
    assert sum(report.preemptions for report in reports) > 50
    assert sum(report.swapped_blocks for report in reports) > 50
    assert sum(report.recomputed_tokens for report in reports) > 50
    assert sum(report.prefix_hit_tokens for report in reports) > 50
