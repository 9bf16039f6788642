"""A higher-ranked arrival preempts the cheapest victim at once, and preemptions of a sequence are bounded."""

import math
from dataclasses import replace

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Preemption
from penstock_runtime.engine.continuous.scheduler.preemption import (
    MAX_PREEMPTIONS,
    MAX_SLICES,
    PreemptionCosts,
)
from penstock_runtime.engine.continuous.sequence import Sequence
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from tests.unit.runtime.engine.continuous.scheduler.device import (
    RECOMPUTE,
    SWAP,
    Machine,
    a_machine,
    a_sequence,
    limits,
)

CAP = 4
URGENT = limits(
    cap=CAP,
    tokens=32,
    discipline=Discipline.PRIORITY,
    preemption=Preemption.LOWER_PRIORITY,
)
SLICED = replace(URGENT, preemption=Preemption.TIME_SLICE)
BUDGETS = [CAP, CAP + 1, 32]
"""Tokens a step: the least that the API allows, the next, and plenty."""
PROMPT = range(800)
"""The ids of a prompt that several sequences share: 200 blocks."""


def full_machine(
    costs: PreemptionCosts = RECOMPUTE,
    depth: int = 1,
    *,
    blocks: int = 1000,
    host: int = 1000,
    answer: int = 200,
    initial_limits: GenerationLimits = URGENT,
) -> Machine:
    """Return a machine all of whose places are held by long generations of low priority."""
    machine = a_machine(
        blocks=blocks, host_blocks=host, costs=costs, depth=depth, initial_limits=initial_limits
    )
    machine.add(*(a_sequence(uid, 8, answer, priority=9) for uid in range(4)))
    for _ in range(90):
        machine.step()
    assert machine.scheduler.report().running == 4
    return machine


def steps_to_end(machine: Machine, uid: int) -> int:
    before = machine.steps
    while uid not in machine.finished:
        machine.step()
    return machine.steps - before


def steps_to_first_token(machine: Machine, arrival: Sequence) -> int:
    """Return how many steps begin from its arrival, while another runs, to the end of the one that gives the token."""
    machine.step(lambda: machine.add(arrival))
    before = machine.steps
    while arrival.uid not in machine.first_token:
        machine.step()
    return machine.steps - before


def in_time(prompt: int, tokens: int) -> int:
    """Return the most steps to the first token of one arrival at a full house.

    Decoding comes first, so a prompt's budget is what the others leave: one place is the arrival's, and the
    rest have a token a step each.
    """
    return math.ceil(prompt / (tokens - (CAP - 1))) + 1


@pytest.mark.parametrize("costs", [SWAP, RECOMPUTE])
@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("tokens", BUDGETS)
@pytest.mark.parametrize("prompt", [1, 8, 31, 100])
def test_a_first_token_comes_within_the_prompts_chunks_and_one_step(
    costs: PreemptionCosts, depth: int, tokens: int, prompt: int
) -> None:
    initial_limits = replace(URGENT, max_batched_tokens=tokens)
    machine = full_machine(costs, depth, answer=512, initial_limits=initial_limits)
    arrival = a_sequence(9, prompt, 4, priority=1, arrived=machine.now)
    assert steps_to_first_token(machine, arrival) <= in_time(prompt, tokens)
    assert machine.scheduler.report().preemptions == 1


def test_batch_work_gives_its_place_to_every_request_and_finishes_exactly() -> None:
    machine = a_machine(
        blocks=1000, host_blocks=1000, costs=RECOMPUTE, depth=1, initial_limits=URGENT
    )
    machine.add(*(a_sequence(uid, 8, 900, priority=BATCH_CLASS) for uid in range(CAP)))
    for _ in range(90):
        machine.step()
    waits = []
    for number in range(
        8 * MAX_PREEMPTIONS
    ):  # of no priority, and in the end each place was taken often
        waits.append(
            steps_to_first_token(machine, a_sequence(20 + number, 8, 4, arrived=machine.now))
        )
        for _ in range(30):
            machine.step()
    assert max(waits) <= in_time(8, 32)
    assert machine.scheduler.report().preemptions > CAP * MAX_PREEMPTIONS
    machine.run()
    assert len(machine.finished) == CAP + len(waits)


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("tokens", BUDGETS)
def test_where_time_is_sliced_it_comes_as_soon(depth: int, tokens: int) -> None:
    machine = full_machine(
        depth=depth, answer=512, initial_limits=replace(SLICED, max_batched_tokens=tokens)
    )
    arrival = a_sequence(9, 8, 4, priority=9, arrived=machine.now)
    assert steps_to_first_token(machine, arrival) <= in_time(8, tokens)


@pytest.mark.parametrize("depth", [0, 1])
def test_it_comes_as_soon_when_there_is_no_free_block_either(depth: int) -> None:
    machine = full_machine(depth=depth, blocks=105, host=0, answer=300)
    arrival = a_sequence(9, 60, 4, priority=1, arrived=machine.now)
    assert steps_to_first_token(machine, arrival) <= in_time(60, 32)
    machine.run()


@pytest.mark.parametrize("tokens", BUDGETS)
def test_the_preempted_go_on_where_they_were_and_finish_exactly(tokens: int) -> None:
    machine = full_machine(initial_limits=replace(URGENT, max_batched_tokens=tokens))
    machine.add(*(a_sequence(20 + n, 8, 8, priority=1, arrived=machine.now) for n in range(4)))
    machine.run()
    assert machine.scheduler.report().preemptions == 4
    assert len(machine.finished) == 8


def test_recomputing_starts_from_the_blocks_that_are_still_cached() -> None:
    machine = full_machine()
    machine.add(a_sequence(9, 8, 4, priority=1, arrived=machine.now))
    machine.run()
    assert machine.scheduler.report().recomputed_tokens < 2 * machine.info.kv.block_tokens


def test_swap_is_chosen_where_copying_costs_less_than_computing_again() -> None:
    costs = PreemptionCosts(prefill_token_seconds=1.0, copied_block_seconds=2.0)
    assert not costs.swap_is_cheaper(lost_tokens=4, blocks=1)
    assert costs.swap_is_cheaper(lost_tokens=5, blocks=1)
    machine = full_machine(SWAP)
    machine.add(a_sequence(9, 8, 4, priority=1, arrived=machine.now))
    machine.run()
    report = machine.scheduler.report()
    assert (report.recomputed_tokens, report.swapped_blocks > 0) == (0, True)


def test_a_full_host_means_computing_again() -> None:
    machine = full_machine(SWAP, host=1)
    machine.add(a_sequence(9, 8, 4, priority=1, arrived=machine.now))
    machine.run()
    report = machine.scheduler.report()
    assert (report.preemptions, report.swapped_blocks) == (1, 0)


def test_the_victim_is_the_one_that_loses_least_of_the_lowest_class() -> None:
    machine = a_machine(blocks=1000, initial_limits=URGENT)
    machine.add(
        a_sequence(0, 8, 100, priority=8),
        a_sequence(1, 30, 100, priority=9),
        a_sequence(2, 8, 100, priority=9),
        a_sequence(3, 8, 100, priority=8),
    )
    for _ in range(30):
        machine.step()
    lost = {
        uid: machine.scheduler.kv.blocks.count_unrecoverable(machine.scheduler._states[uid].blocks)
        for uid in (1, 2)
    }
    machine.add(a_sequence(9, 8, 4, priority=1, arrived=machine.now))
    machine.step()
    machine.step()
    (victim,) = (live for live in machine.live.values() if live.stats.preemptions)
    assert victim.uid in (1, 2)
    assert lost[victim.uid] == min(lost.values())


def test_equal_priority_never_preempts() -> None:
    machine = full_machine()
    machine.add(a_sequence(9, 8, 4, priority=9, arrived=machine.now))
    machine.run()
    assert machine.scheduler.report().preemptions == 0


def test_a_sequence_that_just_started_keeps_its_quantum() -> None:
    machine = a_machine(initial_limits=URGENT)
    machine.add(*(a_sequence(uid, 2, 40, priority=9) for uid in range(4)))
    machine.step()
    machine.add(a_sequence(9, 2, 2, priority=1))
    machine.step()
    assert machine.scheduler.report().preemptions == 0
    machine.run()
    assert machine.scheduler.report().preemptions == 1


@pytest.mark.parametrize(
    ("initial_limits", "maximum"), [(URGENT, MAX_PREEMPTIONS), (SLICED, MAX_SLICES)]
)
def test_after_three_preemptions_or_six_slices_a_sequence_keeps_its_slot(
    initial_limits: GenerationLimits, maximum: int
) -> None:
    machine = full_machine(answer=512, initial_limits=initial_limits)
    low = list(machine.live.values())
    for uid in range(100, 130):
        machine.add(a_sequence(uid, 4, 2, priority=1, arrived=machine.now))
        for _ in range(20):
            machine.step()
    assert max(sequence.stats.preemptions for sequence in low) == maximum
    machine.run()


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize(("seconds", "preemptions"), [(0.0, 1), (100.0, 0)])
def test_an_arrival_preempts_for_blocks_only_what_would_not_be_admitted_before_it_again(
    depth: int, seconds: float, preemptions: int
) -> None:
    sliced = limits(cap=CAP, discipline=Discipline.PRIORITY, preemption=Preemption.TIME_SLICE)
    machine = a_machine(blocks=100, depth=depth, initial_limits=sliced)
    machine.add(a_sequence(0, 260, 120))
    for _ in range(40):
        machine.step()
    machine.now += seconds
    machine.add(a_sequence(1, 160, 4, arrived=machine.now))
    machine.run()
    assert machine.scheduler.report().preemptions == preemptions


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("cap", [1, 2])
def test_under_time_slicing_an_arrival_does_not_lack_the_blocks_that_it_shares(
    depth: int, cap: int
) -> None:
    sliced = limits(cap=cap, discipline=Discipline.PRIORITY, preemption=Preemption.TIME_SLICE)
    machine = a_machine(blocks=400, depth=depth, initial_limits=sliced)
    machine.add(*(a_sequence(uid, PROMPT, 700) for uid in range(cap)))
    for _ in range(320):
        machine.step()
    machine.now += 100.0
    machine.add(a_sequence(9, PROMPT, 4, arrived=machine.now))
    assert steps_to_end(machine, 9) <= 5
    machine.run()


@pytest.mark.parametrize("depth", [0, 1])
def test_an_arrival_takes_the_slot_of_a_short_sequence_if_it_shares_the_blocks_of_another(
    depth: int,
) -> None:
    machine = a_machine(blocks=250, depth=depth, initial_limits=replace(URGENT, max_batch_size=2))
    machine.add(a_sequence(0, PROMPT, 190, priority=1), a_sequence(1, 8, 80, priority=9))
    for _ in range(60):
        machine.step()
    machine.add(a_sequence(9, PROMPT, 4, priority=1, arrived=machine.now))
    assert steps_to_end(machine, 9) <= 5
    machine.run()


@pytest.mark.parametrize("depth", [0, 1])
def test_an_arrival_preempts_for_the_blocks_that_it_lacks_beyond_those_that_it_shares(
    depth: int,
) -> None:
    machine = a_machine(blocks=300, depth=depth, initial_limits=URGENT)
    machine.add(a_sequence(0, PROMPT, 190, priority=1), a_sequence(1, 256, 80, priority=9))
    for _ in range(60):
        machine.step()
    assert machine.scheduler.report().running == 2
    longer = [*PROMPT, *range(120)]
    machine.add(a_sequence(9, longer, 4, priority=1, arrived=machine.now))
    assert steps_to_end(machine, 9) <= 12
    machine.run()


def test_a_preempted_generation_keeps_its_age() -> None:
    machine = full_machine()
    machine.add(a_sequence(9, 8, 100, priority=1, arrived=machine.now))
    machine.step()
    machine.step()
    late = a_sequence(10, 8, 8, priority=9, arrived=machine.now)
    machine.add(late)
    first, second = machine.scheduler.waiting_in_order()
    assert (first.stats.preemptions, second) == (1, late)


def test_never_means_that_arrivals_wait() -> None:
    machine = full_machine()
    machine.scheduler.set_limits(
        limits(cap=4, tokens=32, discipline=Discipline.PRIORITY, generation=2), machine.now
    )
    machine.add(a_sequence(9, 8, 4, priority=1, arrived=machine.now))
    machine.run()
    assert machine.scheduler.report().preemptions == 0


def test_without_blocks_a_lower_ranked_sequence_is_preempted_and_all_finish_exactly() -> None:
    machine = a_machine(blocks=20, initial_limits=limits(cap=8, tokens=32))
    machine.add(*(a_sequence(uid, 10, 40) for uid in range(8)))
    machine.run()
    assert machine.scheduler.report().preemptions > 0
    assert list(machine.finished) == sorted(machine.finished)  # the first come finish first


def test_a_long_prompt_stalls_no_decoding_sequence() -> None:
    machine = a_machine(blocks=1000, initial_limits=limits(cap=4, tokens=32))
    machine.add(a_sequence(0, 4, 100))
    for _ in range(5):
        machine.step()
    machine.add(a_sequence(1, 400, 4, arrived=machine.now))
    before = machine.live[0].output_tokens
    for _ in range(10):
        machine.step()
    assert machine.live[0].output_tokens == before + 10
    machine.run()
