"""Every request ends once and the engine outlives each: on a step that answers without a model."""

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from penstock_api.limits import Discipline
from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.grammar.base import (
    Allowed,
    Broken,
    Complete,
    Grammar,
    Verdict,
)
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    KVSpec,
    Lowering,
    Preemption,
)
from penstock_runtime.engine.continuous.messages import (
    FinishReason,
    Generated,
    Stop,
)
from penstock_runtime.engine.continuous.runner import InlineRunner, StepThread, ThreadRunner
from penstock_runtime.engine.continuous.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.sequence import SampledToken
from penstock_runtime.engine.continuous.step_plan import StepPlan, StepResult
from penstock_runtime.engine.messages import Cancel, Drain, SetLimits
from penstock_runtime.engine.model import DeviceLost
from penstock_runtime.request import Cancelled, Expired, Failed, GrammarUnenforceable
from tests.unit.runtime.engine.continuous.driver import Driver, ask, limits_update

INFO = GenerationInfo(
    name="counting",
    backend="cpu",
    attention="none",
    dtype="float32",
    vocabulary=1000,
    max_model_len=256,
    kv=KVSpec(block_tokens=8, blocks=64, host_blocks=0, block_bytes=1),
    stop_ids=(),
    max_running=16,
    revision="1",
)
LIMITS = GenerationLimits(
    generation=1,
    max_batch_size=8,
    max_batched_tokens=32,
    max_queue_depth=100,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
    preemption=Preemption.NEVER,
)


class CountingStep:
    """The token after position p is p: so every generation is known beforehand."""

    info = INFO

    def __init__(self) -> None:
        self.inputs: list[SamplingInputs] = []
        self.breaks_on: str | None = None
        self.spoils: tuple[str, int] | None = None
        """A request's choice."""
        self.spoils_beside: int | None = None
        """Only in the step in which somebody draws this position; None: in every step."""
        self.lost = False

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        if self.lost:
            raise DeviceLost("gone")
        names = [row.sequence.request.id for row in plan.rows]
        if self.breaks_on in names:
            raise RuntimeError("bad kernel")
        wanted = inputs()
        self.inputs.append(wanted)
        sampled: list[SampledToken | None] = [None] * len(plan.rows)
        failed: dict[int, str] = {}
        drawn = {draw.position for draw in wanted.draws}
        for draw in wanted.draws:
            choice = names[draw.row], draw.choice
            if choice == self.spoils and self.spoils_beside in {None, *drawn}:
                failed[draw.row] = "not a number"
            else:
                sampled[draw.row] = SampledToken(draw.position)
        return StepResult(plan, sampled, failed, seconds=0.25)


@pytest.fixture(params=[0, 1], ids=["depth 0", "depth 1"])
def driver(request: pytest.FixtureRequest) -> Any:
    step = CountingStep()
    with closing(StepThread()) as thread:
        runner = ThreadRunner(step, thread) if request.param else InlineRunner(step)
        made = Driver(step, TokenScheduler(INFO, LIMITS), runner)
        made.step = step  # type: ignore[attr-defined]
        yield made


def test_a_generation_is_told_token_by_token_and_ends_with_its_usage(driver: Any) -> None:
    driver.engine.take(ask("a", [1, 2, 3], tokens=5), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == [3, 4, 5, 6, 7]
    assert driver.finished["a", 0].reason is FinishReason.LENGTH
    usage = driver.ends["a"].usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (3, 5)


def test_a_stop_id_ends_a_choice_and_is_not_told(driver: Any) -> None:
    params = SamplingParams(max_tokens=9, stop_ids=frozenset({5}))
    driver.engine.take(ask("a", [1, 2, 3], params=params), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == [3, 4]
    assert (driver.finished["a", 0].reason, driver.finished["a", 0].stop_id) == ("stop", 5)


def test_what_has_run_for_its_time_finishes_with_what_it_has(driver: Any) -> None:
    params = SamplingParams(max_tokens=20, max_run_seconds=1.0)
    driver.engine.take(ask("long", [1, 2, 3], params=params), 0.0)
    driver.engine.take(ask("other", [1, 2, 3], tokens=20), 0.0)
    driver.run()
    assert driver.tokens["long", 0] == [3, 4, 5, 6], "steps of 0.25 s"
    assert driver.finished["long", 0].reason is FinishReason.LENGTH
    assert len(driver.tokens["other", 0]) == 20


def test_a_stop_from_outside_finishes_well_and_nothing_follows(driver: Any) -> None:
    driver.engine.take(ask("a", [1], tokens=100), 0.0)
    for _ in range(4):
        driver.turn()
    driver.engine.take(Stop((("a", 0),)), driver.now)
    told = list(driver.tokens["a", 0])
    driver.run()
    assert driver.tokens["a", 0] == told
    assert isinstance(driver.ends["a"], Generated)


def test_a_cancelled_request_ends_and_its_blocks_are_free(driver: Any) -> None:
    driver.engine.take(ask("a", list(range(20)), tokens=100), 0.0)
    driver.engine.take(ask("b", [7], tokens=3), 0.0)
    driver.turn()
    driver.engine.take(Cancel(("a", "unknown")), driver.now)
    driver.run()
    report = driver.engine.report()
    assert driver.ends["a"] == Cancelled()
    assert isinstance(driver.ends["b"], Generated)
    assert report.used_blocks == 0
    assert (report.waiting, report.running) == (0, 0)


def test_a_deadline_ends_waiting_and_running_alike(driver: Any) -> None:
    driver.engine.take(ask("a", [1], tokens=200, deadline=4.0), 0.0)
    driver.run()
    assert isinstance(driver.ends["a"], Expired)
    assert 0 < len(driver.tokens["a", 0]) < 10


def test_choices_end_one_by_one_and_the_request_with_the_last(driver: Any) -> None:
    driver.engine.take(ask("a", list(range(10)), tokens=4, n=3), 0.0)
    driver.run()
    assert [driver.tokens["a", choice] for choice in range(3)] == [[10, 11, 12, 13]] * 3
    assert driver.ends["a"].usage.completion_tokens == 12
    assert {draw.choice for one in driver.step.inputs for draw in one.draws} == {0, 1, 2}


def test_a_step_that_breaks_fails_its_own_requests_only(driver: Any) -> None:
    driver.engine.take(ask("a", [1], tokens=50), 0.0)
    driver.turn()
    driver.step.breaks_on = "a"
    driver.turn()
    driver.turn()
    driver.engine.take(ask("b", [1, 2], tokens=3), driver.now)
    driver.run()
    assert driver.ends["a"] == Failed("RuntimeError: bad kernel")
    assert driver.tokens["b", 0] == [2, 3, 4]


def test_a_row_that_is_spoilt_fails_alone(driver: Any) -> None:
    driver.step.spoils = ("a", 0)
    driver.engine.take(ask("a", [1], tokens=5), 0.0)
    driver.engine.take(ask("b", [1, 2], tokens=3), 0.0)
    driver.run()
    assert driver.ends["a"] == Failed("not a number")
    assert driver.tokens["b", 0] == [2, 3, 4]


def test_a_choice_that_ends_in_the_step_that_spoils_another_of_its_request_fails_with_it(
    driver: Any,
) -> None:
    driver.step.spoils, driver.step.spoils_beside = ("a", 1), 5
    params = SamplingParams(max_tokens=9, stop_ids=frozenset({5}))
    driver.engine.take(ask("a", [1, 2, 3], params=params, n=2), 0.0)
    driver.engine.take(ask("b", [1], tokens=9), 0.0)
    driver.run()
    assert driver.ends["a"] == Failed("not a number")
    assert ("a", 0) not in driver.finished
    assert driver.tokens["b", 0] == list(range(1, 10))
    assert driver.engine.report().used_blocks == 0


def test_penalties_see_every_token_before_the_draw(driver: Any) -> None:
    params = SamplingParams(max_tokens=4, presence_penalty=1.0)
    driver.engine.take(ask("a", [1, 2], params=params), 0.0)
    driver.run()
    seen = [
        draw.output_ids.tolist()
        for one in driver.step.inputs
        for draw in one.draws
        if draw.output_ids is not None and draw.output_tokens < 4
    ]
    assert seen == [[], [2], [2, 3], [2, 3, 4]]


class Two:
    """Is complete after two tokens, and breaks after token 3."""

    def __init__(self) -> None:
        self.verdict: Verdict | None = None
        self.accepted: list[int] = []
        self.closed = False

    def begin(self) -> None:
        self.verdict = self.verdict or Allowed(EVERYTHING)

    def accept(self, token: int) -> None:
        self.accepted.append(token)
        self.verdict = Complete() if len(self.accepted) == 2 else Allowed(EVERYTHING)
        if self.accepted[0] == 3:
            self.verdict = Broken("too large")

    def close(self) -> None:
        self.closed = True


class Grammars:
    def __init__(self) -> None:
        self.started: list[Two] = []

    def start(self, address: str) -> Two:
        assert address == "address"
        self.started.append(Two())
        return self.started[-1]

    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None: ...


def test_a_complete_grammar_ends_and_a_broken_one_fails_its_request_alone(driver: Any) -> None:
    source = Grammars()
    driver.loop._engine = driver.engine = GenerationEngine(
        INFO, TokenScheduler(INFO, LIMITS), source
    )
    driver.engine.take(ask("whole", [1, 2], tokens=50, grammar="address"), 0.0)
    driver.engine.take(ask("breaks", [1, 2, 3], tokens=50, grammar="address"), 0.0)
    driver.engine.take(ask("cut", [1] * 5, tokens=1, grammar="address"), 0.0)
    driver.engine.take(ask("exact", [1] * 7, tokens=2, grammar="address"), 0.0)
    driver.run()
    assert driver.tokens["whole", 0] == [2, 3]
    assert driver.finished["whole", 0].reason is FinishReason.STOP
    assert driver.ends["breaks"] == GrammarUnenforceable("too large")
    assert driver.finished["cut", 0].reason is FinishReason.LENGTH
    assert driver.finished["exact", 0].reason is FinishReason.STOP, "complete with its last token"
    assert all(one.closed for one in source.started)


def test_a_grammar_that_leaves_nothing_but_stop_ids_ends_the_answer_below_min_tokens(
    driver: Any,
) -> None:
    params = SamplingParams(max_tokens=9, min_tokens=5, stop_ids=frozenset({2, 40}))
    only_stops = np.zeros(32, np.uint32)
    only_stops[40 // 32] = 1 << 40 % 32
    grammar = Two()
    grammar.begin = lambda: setattr(grammar, "verdict", Allowed(only_stops))  # type: ignore[method-assign]
    source = Grammars()
    source.start = lambda _: grammar  # type: ignore[method-assign,assignment]
    driver.loop._engine = driver.engine = GenerationEngine(
        INFO, TokenScheduler(INFO, LIMITS), source
    )
    driver.engine.take(ask("a", [1, 2, 3], params=params, grammar="address"), 0.0)
    driver.run()
    assert driver.tokens["a", 0] == []
    assert driver.finished["a", 0].reason is FinishReason.STOP


def test_a_drain_refuses_what_cannot_finish_and_fails_what_is_left(driver: Any) -> None:
    driver.engine.take(ask("short", [1], tokens=4), 0.0)
    driver.engine.take(ask("long", [1], tokens=200), 0.0)
    for _ in range(3):
        driver.turn()
    driver.engine.take(Drain(deadline=driver.now + 10.0, retry_after_seconds=2.0), driver.now)
    driver.engine.take(ask("late", [1], tokens=200), driver.now)
    driver.run()
    assert isinstance(driver.ends["short"], Generated)
    assert driver.ends["long"] == Failed("draining", 2.0)
    assert driver.ends["late"] == Failed("draining", 2.0)


EVERYTHING = np.full(32, 0xFFFFFFFF, np.uint32)
STOPS_SOON = SamplingParams(max_tokens=240, stop_ids=frozenset({25}))
"""May take 60 s, at 0.25 s a step, and ends after 24 tokens."""


def obey(driver: Any, **changes: Any) -> None:
    driver.engine.take(
        SetLimits(limits_update(replace(LIMITS, generation=2, **changes))), driver.now
    )


def evicted(driver: Any) -> None:
    """Two stream; then there is a place for one."""
    driver.engine.take(ask("a", [1], params=STOPS_SOON), 0.0)
    driver.engine.take(ask("b", [1], params=STOPS_SOON), 0.0)
    for _ in range(4):
        driver.turn()
    obey(driver, max_batch_size=1, lowering=Lowering.EVICT)
    driver.turn()


def preempted(driver: Any) -> None:
    """One streams; then a better one takes its place."""
    obey(
        driver,
        max_batch_size=1,
        discipline=Discipline.PRIORITY,
        preemption=Preemption.LOWER_PRIORITY,
    )
    driver.engine.take(ask("a", [1], params=STOPS_SOON, priority=9), 0.0)
    for _ in range(20):
        driver.turn()
    driver.engine.take(ask("b", [1], params=STOPS_SOON, priority=1), 0.0)
    for _ in range(2):
        driver.turn()


def half_begun(driver: Any) -> None:
    """One of two choices streams."""
    obey(driver, max_batch_size=1)
    driver.engine.take(ask("a", [1], params=STOPS_SOON, n=2), 0.0)
    for _ in range(4):
        driver.turn()


def half_finished(driver: Any) -> None:
    """One of two choices has been told, the other has yet to begin."""
    half_begun(driver)
    driver.engine.take(Stop((("a", 0),)), driver.now)


@pytest.mark.parametrize("streaming", [evicted, preempted, half_begun, half_finished])
def test_a_drain_ends_no_stream_before_its_deadline(
    driver: Any, streaming: Callable[[Any], None]
) -> None:
    streaming(driver)
    driver.engine.take(Drain(deadline=driver.now + 50.0, retry_after_seconds=2.0), driver.now)
    assert driver.engine.report().waiting == 1
    driver.run()
    assert all(isinstance(end, Generated) for end in driver.ends.values()), driver.ends


def test_a_drain_refuses_at_once_what_the_queue_before_it_leaves_no_time_for(driver: Any) -> None:
    obey(driver, max_batch_size=1)
    for n in range(40):
        driver.engine.take(ask(f"{n}", [1], tokens=50), 0.0)  # 12.5 s each
    for _ in range(4):
        driver.turn()
    driver.engine.take(Drain(deadline=driver.now + 100.0, retry_after_seconds=2.0), driver.now)
    driver.engine.take(ask("late", [1], tokens=4), driver.now)
    driver.turn()
    refused = [*map(str, range(8, 40)), "late"]
    assert driver.ends == dict.fromkeys(refused, Failed("draining", 2.0))


def test_a_lost_device_is_the_engines_death(driver: Any) -> None:
    driver.engine.take(ask("a", [1]), 0.0)
    driver.step.lost = True
    with pytest.raises(DeviceLost):
        driver.run()


def test_the_curves_sums_are_those_of_its_steps(driver: Any) -> None:
    driver.engine.take(ask("a", list(range(20)), tokens=3), 0.0)
    driver.run()
    steps = [posted.step for posted in driver.posted if posted.step is not None]
    x = np.array(
        [[1.0, s.prefill_tokens / 256, s.decode_rows, s.kv_tokens / 4096, s.seconds] for s in steps]
    )
    wanted = (x.T @ x)[np.triu_indices(5)]
    assert driver.engine.report().curve.sums == pytest.approx(wanted.tolist())
    assert [(s.prefill_tokens, s.decode_rows, s.kv_tokens) for s in steps] == [
        (20, 0, 20),
        (0, 1, 21),
        (0, 1, 22),
    ]
