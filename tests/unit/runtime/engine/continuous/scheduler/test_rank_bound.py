"""The rank bound never hides a running sequence that an arrival outranks."""

import random

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import Preemption
from penstock_runtime.engine.continuous.scheduler.running_set import RankBound
from tests.unit.runtime.engine.continuous.scheduler.device import (
    RECOMPUTE,
    Machine,
    a_machine,
    a_sequence,
    limits,
)


class NoBound(RankBound):
    """Has no bound: every arrival scans all running sequences."""

    def outranks_any(self, *_: object) -> bool:
        return True


def run_scenario(
    discipline: Discipline, seed: int, rank_bound: RankBound
) -> tuple[list[list[int]], int]:
    """Return the running uids at each step of a random scenario, and the number of preemptions."""
    chance, plans = random.Random(seed), []  # noqa: S311 - no secret
    initial_limits = limits(
        cap=3, tokens=24, discipline=discipline, preemption=Preemption.LOWER_PRIORITY
    )
    machine: Machine = a_machine(blocks=200, costs=RECOMPUTE, initial_limits=initial_limits)
    machine.scheduler._running.rank_bound, machine.exact = rank_bound, False
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
def test_the_same_sequences_run_with_and_without_the_bound(discipline: Discipline) -> None:
    preempted = 0
    for seed in range(2):
        plans, preemptions = run_scenario(discipline, seed, RankBound())
        assert plans == run_scenario(discipline, seed, NoBound())[0]
        preempted += preemptions
    assert preempted > 0 or discipline is Discipline.FIRST_IN_FIRST_OUT
