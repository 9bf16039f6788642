"""The bound that lets a full house be passed over never hides anybody whom an arrival would beat."""

import random

import pytest

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.limits import Preemption
from penstock_runtime.engine.continuous.scheduler.running_set import RankBound
from tests.unit.runtime.engine.continuous.scheduler.device import (
    RECOMPUTE,
    Machine,
    a_machine,
    a_sequence,
    limits,
)


class Looking(RankBound):
    """Knows no bound: everybody is looked at, each time."""

    def outranks_any(self, *_: object) -> bool:
        return True


def lived(discipline: Discipline, seed: int, ceiling: RankBound) -> tuple[list[list[int]], int]:
    """Return who had a row in each step of a random life, and how many were preempted."""
    chance, plans = random.Random(seed), []  # noqa: S311 - no secret
    obey = limits(cap=3, tokens=24, discipline=discipline, preemption=Preemption.LOWER_PRIORITY)
    machine: Machine = a_machine(blocks=200, costs=RECOMPUTE, obey=obey)
    machine.scheduler._running.rank_bound, machine.exact = ceiling, False
    for uid in range(60):
        prompt, answer = chance.randint(1, 40), chance.choice([2, 30, 90])
        deadline = machine.now + chance.randint(500, 900)
        machine.add(
            a_sequence(
                uid,
                prompt,
                answer,
                priority=chance.randint(0, 9),
                tenant=chance.choice("ab"),
                arrived=machine.now,
                deadline=deadline,
            )
        )
        for _ in range(chance.randint(0, 25)):
            machine.step()
            running = machine.scheduler._running.states()
            plans.append(sorted(slot.sequence.uid for slot in running))
    return plans, machine.scheduler.report().preemptions


@pytest.mark.parametrize("discipline", list(Discipline))
def test_who_runs_is_the_same_with_the_bound_as_without(discipline: Discipline) -> None:
    preempted = 0
    for seed in range(2):
        plans, preemptions = lived(discipline, seed, RankBound())
        assert plans == lived(discipline, seed, Looking())[0]
        preempted += preemptions
    assert preempted > 0 or discipline is Discipline.FIRST_IN_FIRST_OUT
