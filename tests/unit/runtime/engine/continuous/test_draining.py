"""A drain rejects unstarted requests that cannot finish in time behind the queue, and no started one."""

from penstock_runtime.engine.continuous.drain import unfinishable
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.sequence import RequestSpec, Sequence


def choices(name: str, steps: int, count: int = 1, *, begun: bool = False) -> list[Sequence]:
    spec = RequestSpec(name, 1, SamplingParams(max_tokens=steps), seed=0, arrived=0.0)
    sequences = [
        Sequence(100 * ord(name[0]) + choice, spec, choice, [1]) for choice in range(count)
    ]
    sequences[0].stats.first_step_at = 0.0 if begun else None
    return sequences


def rejected(
    running: list[Sequence], waiting: list[Sequence], cap: int, within_steps: float
) -> list[str]:
    return unfinishable([*running, *waiting], waiting, cap, within_steps)


def test_a_waiting_request_takes_the_slot_that_frees_first() -> None:
    running = choices("a", 30, begun=True) + choices("b", 10, begun=True)
    waiting = choices("c", 15) + choices("d", 15) + choices("e", 4)
    assert rejected(running, waiting, cap=2, within_steps=30) == ["d"]


def test_above_a_lowered_cap_surplus_sequences_finish_before_any_other_starts() -> None:
    running = [
        choice for name in "abc" for choice in choices(name, 10 * ord(name) - 960, begun=True)
    ]
    assert rejected(running, choices("d", 5), cap=1, within_steps=35) == ["d"]
    assert rejected(running, choices("d", 5), cap=1, within_steps=36) == []


def test_all_choices_of_a_request_must_finish_and_a_rejected_one_takes_no_slot() -> None:
    waiting = choices("three", 10, count=3) + choices("one", 12)
    assert rejected([], waiting, cap=2, within_steps=15) == ["three"]
    assert rejected([], waiting, cap=3, within_steps=15) == ["one"]


def test_started_requests_get_slots_first_and_are_never_rejected() -> None:
    waiting = choices("new", 10) + choices("evicted", 90, begun=True)
    assert rejected([], waiting, cap=1, within_steps=50) == ["new"]
    assert rejected([], waiting, cap=1, within_steps=101) == []


def test_no_request_is_rejected_before_a_step_was_timed() -> None:
    assert rejected([], choices("a", 10**6), cap=1, within_steps=float("inf")) == []
