"""Simulated pods that generate text take the same steps as the runtime's scheduler."""

from random import Random

import numpy as np
import pytest

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    KVSpec,
    Preemption,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.sequence import RequestSpec, Sequence
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan
from penstock_simulator.pods.generating_pod import GeneratingPod
from penstock_simulator.pods.pod import PodLimits
from penstock_simulator.pods.step_time import AnswerLength, Generation, StepModel
from penstock_simulator.pods.stepping_engine import SteppingEngine

Requests = dict[float, AnswerLength]
BLOCK = 16
WHOLE = 160_000
"""Tokens of a cache that never fills."""
MODEL = StepModel(0.015, 0.010, 0.0006, 0.004, cache_tokens=WHOLE, step_tokens=512, overhead=0.0, sigma=0.0, tail_share=0.0)  # fmt: skip


def requests(rate: float, count: int = 300) -> Requests:
    random, now, lengths = Random(7), 0.0, Requests()  # noqa: S311 - traffic, no secret
    for _ in range(count):
        now += random.expovariate(rate)
        prompt = 1 + round(random.expovariate(1 / 400))
        lengths[now] = AnswerLength(prompt, 1 + round(random.expovariate(1 / 60)))
    return lengths


def simulated(asked: Requests, cap: int, model: StepModel = MODEL) -> SteppingEngine:
    limits = PodLimits(0.0, 10**6, 1e9)
    engine = SteppingEngine(model, None, cap, (1e9, 1e9, 1e9))
    pod = GeneratingPod(0, 0.0, 0.0, engine, limits, Generation(model, asked))
    pod.cap = cap
    pod.push(list(asked))
    pod.advance(1e9)
    return engine


def by_the_runtime(asked: Requests, cap: int, blocks: int = WHOLE // BLOCK) -> tuple[list[tuple[float, float, float]], int]:  # fmt: skip
    """Return (arrival, first token, last token) of every answer, and the preemptions."""
    spec = KVSpec(block_tokens=BLOCK, blocks=blocks, host_blocks=0, block_bytes=1)
    info = GenerationInfo("none", "none", "none", "none", 2, 10**6, spec, (), cap, "1")
    discipline = Discipline.FIRST_IN_FIRST_OUT
    limits = GenerationLimits(
        1, cap, MODEL.step_tokens, 10**6, discipline, Preemption.LOWER_PRIORITY
    )
    scheduler = TokenScheduler(info, limits)
    coming, first = list(asked.items()), dict[int, float]()
    ended = list[tuple[float, float, float]]()
    now, uid = 0.0, 0
    while len(ended) < len(asked):
        while uid < len(coming) and coming[uid][0] <= now:
            scheduler.add(_sequence(uid, *coming[uid]), now)
            uid += 1
        plan = scheduler.plan(now)
        if not isinstance(plan, StepPlan):
            now = coming[uid][0]
            continue
        now += _seconds(plan)
        for row in plan.rows:
            if row.samples:
                row.sequence.ids.append(1)
                first.setdefault(row.sequence.uid, now)
        scheduler.settle(plan)
        for row in plan.rows:
            number = row.sequence.uid
            arrived, (prompt, answer) = coming[number]
            if row.samples and len(row.sequence.ids) == prompt + answer:
                ended.append((arrived, first[number], now))
                scheduler.remove(row.sequence)
    return ended, scheduler.report().preemptions


def _sequence(uid: int, arrived: float, length: AnswerLength) -> Sequence:
    params = SamplingParams(max_tokens=length.answer)
    asked = RequestSpec(str(uid), length.prompt, params, 0, arrived, salt=str(uid))
    return Sequence(uid, asked, 0, [1] * length.prompt)


def _seconds(plan: StepPlan) -> float:
    decoding = [row.start >= row.sequence.request.prompt_tokens and row.count == 1 for row in plan.rows]  # fmt: skip
    rows = sum(decoding)
    return MODEL.seconds(plan.tokens - rows, rows, sum(row.start + row.count for row in plan.rows))


@pytest.mark.parametrize("rate", [1.0, 8.0, 16.0])
@pytest.mark.parametrize("cap", [4, 32])
def test_with_a_large_cache_every_token_comes_at_the_same_time(rate: float, cap: int) -> None:
    asked = requests(rate)
    expected, _ = by_the_runtime(asked, cap)
    times = [answer[:3] for answer in simulated(asked, cap).answers]
    assert np.array(sorted(times)) == pytest.approx(np.array(sorted(expected)))


@pytest.mark.parametrize("tokens", [4_000, 8_000])
def test_in_a_small_cache_latencies_and_preemptions_are_alike(tokens: int) -> None:
    """The runtime counts blocks of 16 tokens, and the simulator tokens."""
    asked = requests(6.0)
    model = StepModel(**{name: getattr(MODEL, name) for name in MODEL.__slots__} | {"cache_tokens": tokens})  # fmt: skip
    expected, preemptions = by_the_runtime(asked, 32, tokens // BLOCK)
    engine = simulated(asked, 32, model)
    assert len(engine.answers) == len(expected) == len(asked)
    assert engine.preemptions == pytest.approx(preemptions, abs=5, rel=0.3)
    for column in (1, 2):
        mine = np.mean([answer[column] - answer[0] for answer in engine.answers])
        theirs = np.mean([answer[column] - answer[0] for answer in expected])
        assert mine == pytest.approx(theirs, rel=0.1)
