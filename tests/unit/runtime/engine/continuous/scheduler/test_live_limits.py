"""Every limit holds from the next plan on, and none of them costs a request its answer."""

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import Lowering
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from tests.unit.runtime.engine.continuous.scheduler.device import a_machine, a_sequence, limits


def rows_of(plan: object) -> int:
    assert isinstance(plan, StepPlan)
    return len(plan.rows)


def test_a_raised_cap_fills_the_next_plan() -> None:
    machine = a_machine(initial_limits=limits(cap=2), depth=0, blocks=200)
    machine.add(*(a_sequence(uid, 4, 30) for uid in range(6)))
    machine.step()
    machine.scheduler.set_limits(limits(cap=6, generation=2), machine.now)
    assert rows_of(machine.scheduler.plan(machine.now)) == 6


def test_finish_lets_the_surplus_finish_and_says_how_many_are_left() -> None:
    machine = a_machine(initial_limits=limits(cap=6), blocks=200)
    machine.add(*(a_sequence(uid, 4, 10 + uid) for uid in range(8)))
    for _ in range(3):
        machine.step()
    machine.scheduler.set_limits(limits(cap=2, generation=2), machine.now)
    machine.step()
    report = machine.scheduler.report()
    assert (report.generation, report.converging, report.surplus) == (2, True, 4)
    machine.run()
    report = machine.scheduler.report()
    assert (report.preemptions, report.converging, report.surplus) == (0, False, 0)


def test_finish_decodes_every_sequence_of_the_surplus_in_each_step() -> None:
    machine = a_machine(initial_limits=limits(cap=8), blocks=400, depth=0)
    machine.add(*(a_sequence(uid, 4, 100) for uid in range(8)))
    for _ in range(3):
        machine.step()
    machine.scheduler.set_limits(limits(cap=2, tokens=2, generation=2), machine.now)
    before = {uid: sequence.output_tokens for uid, sequence in machine.live.items()}
    for _ in range(20):
        machine.step()
    assert {uid: s.output_tokens for uid, s in machine.live.items()} == {
        uid: tokens + 20 for uid, tokens in before.items()
    }
    machine.run()


@pytest.mark.parametrize("depth", [0, 1])
def test_evict_applies_to_the_next_plan_and_the_evicted_finish_exactly(depth: int) -> None:
    machine = a_machine(initial_limits=limits(cap=6), depth=depth, blocks=200)
    machine.add(*(a_sequence(uid, 4, 30) for uid in range(6)))
    for _ in range(5):
        machine.step()
    update = limits(cap=2, generation=2, lowering=Lowering.EVICT)
    machine.scheduler.set_limits(update, machine.now)
    plan = machine.scheduler.plan(machine.now)
    assert isinstance(plan, StepPlan)
    machine.plans.append(plan)
    report = machine.scheduler.report()
    assert (report.running, report.generation, report.converging) == (2, 2, False)
    assert (report.preempted, report.preemptions, len(plan.rows)) == (4, 4, 2)
    machine.run()


def test_evict_takes_even_sequences_that_were_preempted_three_times() -> None:
    machine = a_machine(initial_limits=limits(cap=2), blocks=200, depth=0)
    sequence = a_sequence(0, 4, 30)
    machine.add(sequence, a_sequence(1, 4, 30))
    machine.step()
    for sequence in machine.live.values():
        sequence.stats.preemptions = 3
    machine.scheduler.set_limits(limits(cap=1, lowering=Lowering.EVICT), machine.now)
    machine.step()
    assert machine.scheduler.report().running == 1
    machine.run()


def test_an_idle_scheduler_applies_limits_at_once() -> None:
    machine = a_machine()
    machine.scheduler.set_limits(limits(generation=7), machine.now)
    machine.scheduler.plan(machine.now)
    assert machine.scheduler.report().generation == 7


def test_a_step_never_has_more_tokens_than_its_budget_but_one_for_each_that_runs() -> None:
    machine = a_machine(initial_limits=limits(cap=4, tokens=6), blocks=200)
    machine.add(*(a_sequence(uid, 40, 4) for uid in range(4)))
    machine.run()  # the machine itself asserts the budget of every plan


def test_a_changed_discipline_reorders_the_queue() -> None:
    machine = a_machine(initial_limits=limits(cap=1), blocks=200)
    machine.add(a_sequence(0, 4, 20))
    machine.step()
    machine.add(a_sequence(1, 30, 30), a_sequence(2, 4, 4))
    machine.scheduler.set_limits(
        limits(cap=1, discipline=Discipline.SHORTEST_JOB_FIRST, generation=2), machine.now
    )
    assert [sequence.uid for sequence in machine.scheduler.waiting_in_order()] == [2, 1]
    machine.run()
    assert list(machine.finished) == [0, 2, 1]


def test_the_cap_is_bounded_by_what_memory_holds() -> None:
    machine = a_machine(blocks=4, initial_limits=limits(cap=100))
    assert machine.scheduler.cap == 4


def test_those_past_their_deadline_are_named_once_waiting_or_running() -> None:
    machine = a_machine(initial_limits=limits(cap=1), blocks=200)
    machine.add(
        a_sequence(0, 4, 100, deadline=0.05),
        a_sequence(1, 4, 100, deadline=0.04),
        a_sequence(2, 4, 10),
    )
    for _ in range(5):
        machine.step()
    assert [sequence.uid for sequence in machine.scheduler.expired(machine.now)] == [1, 0]
    assert not list(machine.scheduler.expired(machine.now))
    machine.cancel(0)
    machine.cancel(1)
    machine.run()


def test_choices_of_one_request_share_its_prompt() -> None:
    machine = a_machine(blocks=200, initial_limits=limits(cap=8))
    prompt = list(range(22))
    machine.add(*(a_sequence(uid, prompt, 6, request="r", choice=uid) for uid in range(4)))
    machine.step()
    assert machine.scheduler.report().waiting == 3
    most = 0
    while machine.step():
        most = max(most, machine.scheduler.report().used_blocks)
    assert most <= 5 + 4 * 3  # five full blocks of the prompt once, then each its own
    assert len(machine.finished) == 4


def test_choices_go_on_when_the_first_is_cancelled_before_its_prompt_is_done() -> None:
    machine = a_machine(blocks=200, initial_limits=limits(cap=8, tokens=8))
    prompt = list(range(40))
    machine.add(*(a_sequence(uid, prompt, 6, request="r", choice=uid) for uid in range(3)))
    machine.step()
    machine.cancel(0)
    machine.run()
    assert sorted(machine.finished) == [1, 2]


@pytest.mark.parametrize("choices", [1, 2])
def test_the_report_counts_running_batch_work_by_request(choices: int) -> None:
    machine = a_machine(blocks=200, initial_limits=limits(cap=6 * choices), depth=0)
    for uid in range(6 * choices):
        number, choice = divmod(uid, choices)
        prompt, priority = range(number, number + 4), BATCH_CLASS if number < 3 else 0
        machine.add(
            a_sequence(uid, prompt, 30, priority=priority, request=f"r{number}", choice=choice)
        )
    for _ in range(3):
        machine.step()
    report = machine.scheduler.report()
    assert report.running == 6 * choices
    assert (report.running_requests, report.running_batch_work) == (6, 3)
    for uid in range(choices):
        machine.cancel(uid)
    assert machine.scheduler.report().running_batch_work == 2
    machine.run()
    assert machine.scheduler.report().running_batch_work == 0


def test_equal_prompts_share_blocks_unless_their_salts_differ() -> None:
    prompt = list(range(40))
    machine = a_machine(blocks=200)
    for uid, salt in enumerate(["", "", "other"]):
        machine.add(a_sequence(uid, prompt, 2, salt=salt))
        machine.run()
    assert machine.scheduler.report().prefix_hit_tokens == 36
