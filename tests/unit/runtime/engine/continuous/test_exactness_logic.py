"""Level Logic: in float64 every id is the one that transformers' generate() says alone, under any schedule."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import astuple
from functools import partial
from pathlib import Path

import pytest
import torch

from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import StepThread, ThreadRunner
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.scenarios import Scenario, Tally, references
from tests.unit.runtime.models.decoders.tiny_models import save

FAMILIES = ("llama", "qwen2", "gemma", "gpt2")
BLOCK_TOKENS = (8, 32)
"""The least there is, and OpenVINO's; prompts grow with it, so that both have prefixes to find."""
CASES = [(family, tokens) for family in FAMILIES for tokens in BLOCK_TOKENS]
QUICK_CASES = [(family, 8) for family in FAMILIES] + [("llama", 32)]
QUICK = 2
LONG = 26
"""Each, for each family and size of block: 224 in all."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            case,
            id=f"{case[0]}, blocks of {case[1]}",
            marks=[] if case in QUICK_CASES else pytest.mark.long,
        )
        for case in CASES
    ],
)
def case(request: pytest.FixtureRequest) -> tuple[str, int]:
    family, block_tokens = request.param
    return family, block_tokens


@pytest.fixture(scope="module")
def folder(case: tuple[str, int], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(case[0], tmp_path_factory.mktemp(case[0]))


@pytest.fixture(scope="module")
def thread() -> Iterator[StepThread]:
    with closing(StepThread()) as executor:
        yield executor


@pytest.fixture(scope="module")
def step(case: tuple[str, int], folder: Path, thread: StepThread) -> TorchStep:
    options = StepOptions(
        dtype=DType.FLOAT64,
        cache_bytes=1 << 20,
        host_cache_bytes=1 << 20,
        block_tokens=case[1],
    )
    return thread.submit(partial(open_step, folder, options, "tiny")).result()


def summed(tallies: list[Tally]) -> Tally:
    """Return one tally of all."""
    return Tally(*(sum(column) for column in zip(*map(astuple, tallies), strict=True)))


def check(
    step: TorchStep, thread: StepThread, folder: Path, seed: int, shaped: float = 0.0
) -> Tally:
    runner = ThreadRunner(step, thread)
    runner.depth = seed % 2
    scale = step.info.kv.block_tokens // 8
    scenario = Scenario(step, seed, runner, scale, shaped)
    scenario.live()
    scenario.check_ends()
    assert bool(scenario.grammars.late) == bool(shaped)
    expected = references(folder, torch.float64, scale)
    for which, tokens, ids in scenario.answers():
        assert ids == list(expected[which][:tokens]), f"seed {seed}, prompt {which}"
    tally = Tally()
    scenario.add_to(tally)
    return tally


def test_every_id_is_the_references_under_any_schedule_and_where_masks_are_late(
    step: TorchStep, thread: StepThread, folder: Path
) -> None:
    tallies = [check(step, thread, folder, seed, shaped=0.7 * seed) for seed in range(QUICK)]
    assert all(tally.preemptions > 0 for tally in tallies)
    assert sum(tally.prefix_hit_tokens for tally in tallies) > 0


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_id_is_the_references_in_two_hundred_more_scenarios(
    step: TorchStep, thread: StepThread, folder: Path
) -> None:
    seeds = range(QUICK, QUICK + LONG)
    tallies = [check(step, thread, folder, seed, seed % 3 / 2) for seed in seeds]
    print(folder.name, summed(tallies))
    for field in ("preemptions", "swapped_blocks", "recomputed_tokens", "prefix_hit_tokens"):
        assert sum(getattr(tally, field) for tally in tallies) > LONG, field
    assert sum(tally.cancelled for tally in tallies) > LONG
