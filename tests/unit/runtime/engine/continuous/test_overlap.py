"""What the overlap of steps with planning may not change: when an arrival is served, limits hold, and an engine ends."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.limits import Lowering, Preemption
from penstock_runtime.engine.continuous.loop import LoopPorts, serve
from penstock_runtime.engine.continuous.messages import (
    Ended,
    Generated,
    Stepped,
    ToGeneration,
)
from penstock_runtime.engine.continuous.opening import open_runner
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import Idle, StepPlan, StepResult
from penstock_runtime.engine.messages import SetLimits
from penstock_runtime.engine.model import DeviceLost, ModelLoadFailed
from tests.unit.runtime.engine.continuous.counting_step import INFO, LIMITS, CountingStep
from tests.unit.runtime.engine.continuous.driver import generate_request, limits_update

CAP = 4
URGENT = replace(
    LIMITS,
    max_batch_size=CAP,
    discipline=Discipline.PRIORITY,
    preemption=Preemption.LOWER_PRIORITY,
)
LATE = 60
"""The step during which something happens: all running sequences have used their quantum."""
SECONDS = 20.0
"""Time limit of a wait for another thread."""


class Planner(TokenScheduler):
    """A step may wait until the one behind it has been planned."""

    def __init__(self) -> None:
        super().__init__(INFO, URGENT)
        self._planned = threading.Condition()

    def plan(self, now: float) -> StepPlan | Idle:
        with self._planned:
            planned = super().plan(now)
            self._planned.notify_all()
        return planned

    def wait_for(self, number: int) -> None:
        """Wait until that plan has been made."""
        with self._planned:
            assert self._planned.wait_for(lambda: self._planner._plans > number, SECONDS)


class EventfulStep(CountingStep):
    """Something happens while step LATE runs, when everything that may be planned ahead of it has been."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.planner = Planner()
        self._depth = depth
        self.meanwhile: Callable[[], None] = lambda: None
        self.plans: list[StepPlan] = []
        self.drew: dict[str, int] = {}
        """The first step that drew for a request."""

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        self.plans.append(plan)
        for row in plan.rows:
            if row.samples:
                self.drew.setdefault(row.sequence.request.id, plan.number)
        if plan.number == LATE:
            self.planner.wait_for(LATE + self._depth)
            self.meanwhile()
        result = super().run(plan, inputs)
        result.began, result.seconds = float(plan.number), 0.75
        return result


@dataclass
class Life:
    """One engine from its first messages until it has nothing left to do; inbox and heartbeat in one."""

    depth: int
    messages: list[ToGeneration]
    posted: list[Stepped] = field(default_factory=list)
    ticks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.step = EventfulStep(self.depth)

    def send(self, message: ToGeneration) -> None:
        self.messages.append(message)

    def receive(self, until: float | None) -> Sequence[ToGeneration] | None:
        messages, self.messages = self.messages, []
        return None if until and not messages else messages  # nothing more comes to an idle engine

    def begin(self, predicted_seconds: float) -> None:
        assert predicted_seconds >= 0.0
        self.ticks.append("begin")

    def tick(self) -> None:
        raise AssertionError("no heartbeat within a step")

    def end(self) -> None:
        self.ticks.append("end")

    def tick_idle(self) -> None: ...

    def live(self) -> None:
        step, runner = open_runner(lambda: self.step, self.depth)
        engine = GenerationEngine(step.info, self.step.planner)
        serve(engine, runner, self, LoopPorts(self.posted.append, self, lambda: 0.0))


@pytest.fixture(params=[0, 1], ids=["depth 0", "depth 1"])
def life(request: pytest.FixtureRequest) -> Life:
    """Return an engine all of whose places long generations of low priority will hold."""
    return Life(
        request.param,
        [generate_request(str(n), [1] * 8, tokens=100, priority=9) for n in range(CAP)],
    )


@pytest.mark.parametrize("prompt", [1, 8, 29, 40])
def test_a_better_arrivals_first_token_comes_within_its_chunks_and_one_step_that_begin_after_it(
    life: Life, prompt: int
) -> None:
    urgent = generate_request("urgent", [1] * prompt, tokens=2, priority=1)
    life.step.meanwhile = partial(life.send, urgent)
    life.live()
    chunk = URGENT.max_batched_tokens - (CAP - 1)
    assert life.step.drew["urgent"] - LATE <= math.ceil(prompt / chunk) + 1


def test_limits_apply_and_are_reported_by_the_end_of_the_next_step(life: Life) -> None:
    fewer = replace(URGENT, generation=2, max_batch_size=1, lowering=Lowering.EVICT)
    life.step.meanwhile = partial(life.send, SetLimits(limits_update(fewer)))
    life.live()
    assert {len(plan.rows) for plan in life.step.plans[LATE + 2 :]} == {1}
    generations = [stepped.report.generation for stepped in life.posted if stepped.step is not None]
    assert generations[LATE + 1] == 2


def test_the_heartbeat_starts_once_a_step_and_stops_when_nothing_is_left(life: Life) -> None:
    seen: list[list[str]] = []
    life.step.meanwhile = lambda: seen.append(list(life.ticks))
    life.live()
    assert seen[0][-1] == "begin", "a step that hangs leaves a busy heartbeat behind"
    assert seen[0].count("begin") == LATE + 1
    assert life.ticks[-1] == "end"
    assert life.ticks.count("begin") == len(life.step.plans)


def test_the_device_idles_from_the_end_of_a_step_to_the_next_ones_beginning(life: Life) -> None:
    life.live()
    idle = [stepped.step.idle_seconds for stepped in life.posted if stepped.step is not None]
    assert idle == [0.0, *[0.25] * (len(idle) - 1)]


@pytest.mark.parametrize("depth", [0, 1])
def test_who_waits_begins_when_all_that_ran_end_in_the_last_step(depth: int) -> None:
    life = Life(
        depth, [generate_request(str(n), [1] * 2, tokens=1, priority=9) for n in range(2 * CAP)]
    )
    life.live()
    ends = [
        event.end for stepped in life.posted for event in stepped.events if isinstance(event, Ended)
    ]
    assert [type(end) for end in ends] == [Generated] * 2 * CAP


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Steps of pods that live as long as the session are not this test's."""
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    assert not [thread for thread in left if thread.name == "penstock-step"]


def lose(step: EventfulStep) -> None:
    step.lost = True
    raise DeviceLost("gone")


def leave(_: EventfulStep) -> None:
    raise SystemExit(3)


@pytest.mark.usefixtures("no_thread_is_left")
@pytest.mark.parametrize(("raises", "error"), [(lose, DeviceLost), (leave, SystemExit)])
@pytest.mark.parametrize("penalty", [0.0, 1.0], ids=["plain", "waits for its inputs"])
def test_what_no_engine_survives_ends_it_and_its_thread(
    life: Life, raises: Callable[[EventfulStep], None], error: type[BaseException], penalty: float
) -> None:
    params: dict[str, Any] = {"max_tokens": 100, "temperature": 0.0, "presence_penalty": penalty}
    life.messages.append(
        generate_request("shaped", [1], params=SamplingParams(**params), priority=9)
    )
    life.step.meanwhile = partial(raises, life.step)
    with pytest.raises(error):
        life.live()


@pytest.mark.usefixtures("no_thread_is_left")
def test_a_model_that_does_not_load_leaves_no_thread() -> None:
    def load() -> CountingStep:
        raise ModelLoadFailed("no config.json")

    with pytest.raises(ModelLoadFailed):
        open_runner(load, 1)
