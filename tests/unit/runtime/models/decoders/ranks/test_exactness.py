"""Answers of a model that is split over ranks are those of one process, at each level of exactness."""

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from penstock_runtime.engine.continuous.messages import Logprob, TokensEmitted
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import ThreadRunner
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request
from tests.unit.runtime.engine.continuous.fifo import FifoScheduler
from tests.unit.runtime.engine.continuous.scenarios import Scenario, Tally, prompts, references
from tests.unit.runtime.models.decoders.ranks.group_of_ranks import Led, led, save_divisible
from tests.unit.runtime.models.decoders.tiny_models import KNOWN

OPTIONS = StepOptions(
    dtype=DType.FLOAT64,
    cache_bytes=1 << 20,
    host_cache_bytes=1 << 20,
    block_tokens=8,
    tensor_parallel=2,
)
QUICK = {("gemma3", 2, 2)}
"""Splits both ways; the others take minutes."""
GROUPS = [
    pytest.param(
        family,
        tensor,
        stages,
        id=f"{family} over {tensor} by {stages}",
        marks=[] if (family, tensor, stages) in QUICK else pytest.mark.long,
    )
    for family in KNOWN
    for tensor, stages in ((2, 1), (4, 1), (1, 2), (2, 2))
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("family", "tensor", "stages"), GROUPS)
def test_every_id_is_the_references_under_any_schedule(
    family: str, tensor: int, stages: int, tmp_path: Path
) -> None:
    folder = save_divisible(family, tmp_path, layers=3 if stages > 1 else 2)
    options = replace(OPTIONS, tensor_parallel=tensor, pipeline_parallel=stages)
    with led(folder, options) as opened:
        check(opened, folder)


def check(opened: Led, folder: Path) -> None:
    """Compare the answers of two scenarios, one of each depth, with those of generate()."""
    expected, tally = references(folder, torch.float64), Tally()
    for seed in (0, 1):
        runner = ThreadRunner(opened.step, opened.thread)
        runner.depth = seed % 2
        scenario = Scenario(opened.step, seed, runner)
        scenario.live()
        scenario.check_ends()
        for which, tokens, ids in scenario.answers():
            assert ids == list(expected[which][:tokens]), f"seed {seed}, prompt {which}"
        scenario.add_to(tally)
    assert tally.preemptions > 0
    assert tally.cancelled > 0
    assert tally.prefix_hit_tokens > 0


def bits(opened: Led, cap: int, budget: int) -> dict[str, list[Logprob]]:
    """Return the log-probabilities of the answers to some prompts, `cap` at a time in steps of `budget` tokens."""
    scheduler = FifoScheduler(opened.step.info.kv, cap=cap, budget=budget)
    driver = Driver(opened.step, scheduler, ThreadRunner(opened.step, opened.thread))
    params = SamplingParams(max_tokens=8, temperature=0.0, logprobs=2)
    for index, prompt in enumerate(prompts()[:4]):
        driver.engine.take(generate_request(str(index), list(prompt), params=params), driver.now)
    driver.run()
    logprobs = defaultdict[str, list[Logprob]](list)
    for stepped in driver.posted:
        for event in stepped.events:
            if isinstance(event, TokensEmitted):
                logprobs[event.id] += event.logprobs
    return logprobs


@pytest.mark.long
def test_batch_invariant_bits_do_not_depend_on_batch_mates_or_chunks(tmp_path: Path) -> None:
    options = replace(OPTIONS, dtype=DType.FLOAT32, batch_invariant=True)
    with led(save_divisible("qwen3", tmp_path), options) as opened:
        assert bits(opened, cap=1, budget=64) == bits(opened, cap=4, budget=5)


@pytest.mark.long
def test_a_pipeline_has_the_bits_of_one_rank(tmp_path: Path) -> None:
    folder = save_divisible("qwen3", tmp_path, layers=3)
    options = replace(OPTIONS, dtype=DType.FLOAT32, tensor_parallel=1, compute=Compute.TORCH)
    with led(folder, options) as opened:
        expected = bits(opened, cap=4, budget=9)
    with led(folder, replace(options, pipeline_parallel=2)) as opened:
        assert bits(opened, cap=4, budget=9) == expected
