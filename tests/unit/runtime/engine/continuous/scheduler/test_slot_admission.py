"""A free slot is given to a prompt that ranks before those in progress, however long they are."""

import math
from typing import Any

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import Preemption
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from tests.unit.runtime.engine.continuous.scheduler.device import (
    Machine,
    a_machine,
    a_sequence,
    limits,
)

LONG, SHORT, TOKENS = 2000, 100, 64
IN_TIME = math.ceil(SHORT / TOKENS) + 1


def a_machine_with_a_long_prompt(
    discipline: Discipline, preemption: Preemption, long: Sequence, blocks: int = 1000
) -> Machine:
    """Return a machine with free slots that has begun to prefill `long`."""
    initial_limits = limits(cap=8, tokens=TOKENS, discipline=discipline, preemption=preemption)
    machine = a_machine(blocks=blocks, depth=0, initial_limits=initial_limits)
    machine.add(long)
    for _ in range(3):
        machine.step()
    return machine


def steps_to_first_token(machine: Machine, arrival: Sequence) -> int:
    machine.add(arrival)
    before = machine.steps
    while arrival.uid not in machine.first_token:
        machine.step()
    return machine.steps - before


@pytest.mark.parametrize("preemption", list(Preemption))
@pytest.mark.parametrize(
    ("discipline", "long", "short"),
    [
        (Discipline.PRIORITY, {"priority": 10}, {"priority": 1}),
        (Discipline.PRIORITY, {"priority": BATCH_CLASS}, {}),
        (Discipline.FAIR_SHARE, {"tenant": "a"}, {"tenant": "b"}),
        (Discipline.EARLIEST_DEADLINE_FIRST, {}, {"deadline": 9.0}),
        (Discipline.SHORTEST_JOB_FIRST, {}, {}),
    ],
)
def test_a_prompt_that_ranks_first_waits_for_no_long_prompt(
    discipline: Discipline,
    preemption: Preemption,
    long: dict[str, Any],
    short: dict[str, Any],
) -> None:
    machine = a_machine_with_a_long_prompt(discipline, preemption, a_sequence(0, LONG, **long))
    arrival = a_sequence(1, SHORT, arrived=machine.now, **short)
    assert steps_to_first_token(machine, arrival) <= IN_TIME
    assert machine.scheduler.report().preemptions == 0


@pytest.mark.parametrize("preemption", [Preemption.NEVER, Preemption.LOWER_PRIORITY])
def test_a_prompt_of_the_same_class_waits_for_the_long_one(preemption: Preemption) -> None:
    machine = a_machine_with_a_long_prompt(Discipline.PRIORITY, preemption, a_sequence(0, LONG))
    arrival = a_sequence(1, SHORT, arrived=machine.now)
    assert steps_to_first_token(machine, arrival) >= (LONG - 3 * TOKENS) // TOKENS


@pytest.mark.parametrize("preemption", list(Preemption))
def test_equally_long_prompts_of_many_tenants_are_computed_one_after_another(
    preemption: Preemption,
) -> None:
    positions = 47 * TOKENS  # whole steps, and above the credit of a tenant that returns
    machine = a_machine_with_a_long_prompt(
        Discipline.FAIR_SHARE, preemption, a_sequence(0, positions, tenant="0"), blocks=4000
    )
    for uid in range(1, 4):
        machine.add(a_sequence(uid, positions, arrived=machine.now, tenant=str(uid)))
    while not machine.first_token:
        machine.step()
    assert machine.steps <= 47 + 1
    machine.run()


def test_a_long_prompt_whose_turn_has_come_is_fed_among_ever_more_short_ones() -> None:
    machine = a_machine_with_a_long_prompt(
        Discipline.FIRST_IN_FIRST_OUT, Preemption.TIME_SLICE, a_sequence(0, LONG, 2)
    )
    machine.seconds = lambda _plan: 1.0
    for uid in range(1, 450, 3):  # more than a step can feed
        for more in range(3):
            machine.add(a_sequence(uid + more, 25, 2, arrived=machine.now))
        machine.step()
    assert machine.first_token[0] < 120
    machine.run()


def test_it_takes_no_slot_that_it_could_not_use() -> None:
    """A decoding sequence ranks after the arrival, but the prompt in progress ranks before it."""
    machine = a_machine_with_a_long_prompt(
        Discipline.PRIORITY, Preemption.LOWER_PRIORITY, a_sequence(0, 8, 100, priority=10)
    )
    for _ in range(20):
        machine.step()
    machine.add(a_sequence(1, LONG, arrived=machine.now, priority=1))
    machine.step()
    machine.add(a_sequence(2, SHORT, arrived=machine.now, priority=5))
    machine.step()
    report = machine.scheduler.report()
    assert (report.running, report.waiting) == (2, 1)
    machine.run()


@pytest.mark.parametrize("preemption", [Preemption.NEVER, Preemption.LOWER_PRIORITY])
def test_prompts_that_overtake_each_other_fill_the_cache_and_finish_exactly(
    preemption: Preemption,
) -> None:
    machine = a_machine_with_a_long_prompt(
        Discipline.EARLIEST_DEADLINE_FIRST, preemption, a_sequence(0, 300, 40), blocks=200
    )
    for uid in range(1, 7):
        machine.add(a_sequence(uid, 200, 40, arrived=machine.now, deadline=100.0 - uid))
        machine.step()
    machine.run()
    assert sorted(machine.finished) == list(range(7))
