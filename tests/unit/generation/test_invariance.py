"""On the native decoder, in float32 and bfloat16, the very bits of a token's log-probability are its own: batch mates, chunks, prefix hits,
preemption by recompute and by swap never show in them."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from penstock_api.limits import Discipline
from penstock_runtime.batching.tokens.scheduler import TokenScheduler
from penstock_runtime.batching.tokens.victims import PreemptionCosts
from penstock_runtime.generation.limits import GenerationLimits, Preemption
from penstock_runtime.generation.messages import SchedulerReport, TokensEmitted
from penstock_runtime.generation.options import DType, StepOptions
from penstock_runtime.generation.params import SamplingParams
from penstock_runtime.generation.step.native.decoder import NativeDecoder
from penstock_runtime.generation.step.open import open_step
from penstock_runtime.generation.step.torch_step import TorchStep

from .driver import Driver, ask
from .models import CONFIGS, VOCABULARY, save
from .scenarios import RECOMPUTE, SWAP

OWN = [
    np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    for seed, length in enumerate([30, 3, 17, 61, 8, 1])
]
STEM = OWN[3][:16]
"""Two blocks."""
PROMPTS = [STEM + OWN[0], *OWN[1:]]
PARAMS = SamplingParams(max_tokens=24, temperature=0.9, top_p=0.95, seed=11, logprobs=0)
LIMITS = GenerationLimits(
    generation=1,
    max_batch_size=6,
    max_batched_tokens=64,
    max_queue_depth=100,
    discipline=Discipline.PRIORITY,
    preemption=Preemption.LOWER_PRIORITY,
)


@pytest.fixture(
    scope="module",
    params=product((DType.FLOAT32, DType.BFLOAT16), CONFIGS),
    ids=lambda both: f"{both[1]}-{both[0].value}",
)
def step(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TorchStep:
    dtype, family = request.param
    folder: Path = save(family, tmp_path_factory.mktemp(family))
    options = StepOptions(
        dtype=dtype,
        cache_bytes=1 << 20,
        host_cache_bytes=1 << 18,
        block_tokens=8,
        batch_invariant=True,
    )
    return open_step(folder, options, "tiny")


Told = dict[str, list[tuple[int, float]]]
"""By request: every token with the bits of its log-probability."""


def run(
    step: TorchStep,
    names: list[int],
    limits: GenerationLimits = LIMITS,
    blocks: int | None = None,
    costs: PreemptionCosts | None = None,
) -> tuple[Told, SchedulerReport]:
    """Return what was told, and what the scheduler did meanwhile."""
    info = replace(step.info, kv=replace(step.info.kv, blocks=blocks or step.info.kv.blocks))
    scheduler = TokenScheduler(info, limits, costs)
    driver = Driver(step, scheduler)
    for name in names:
        message = ask(str(name), PROMPTS[name], params=PARAMS, priority=9 - name)
        driver.engine.take(message, driver.now)
        driver.turn()
    driver.run()
    told: Told = {}
    for stepped in driver.posted:
        for event in stepped.events:
            if isinstance(event, TokensEmitted):
                bits = [one.chosen for one in event.logprobs]
                told.setdefault(event.id, []).extend(zip(event.tokens, bits, strict=True))
    return told, scheduler.report()


EVERYONE = list(range(len(PROMPTS)))
CRAMPED = 14
"""Blocks: of 8 positions, less than half of what everyone needs."""


@pytest.fixture(scope="module")
def alone(step: TorchStep) -> Told:
    told: Told = {}
    for name in EVERYONE:
        one, report = run(step, [name])
        assert (report.prefix_hit_tokens, report.preemptions) == (0, 0)
        told |= one
    return told


def test_batch_mates_and_prefix_hits_do_not_show(step: TorchStep, alone: Told) -> None:
    assert isinstance(step._decoder, NativeDecoder)
    told, report = run(step, EVERYONE)
    assert told == alone
    assert (report.prefix_hit_tokens, report.preemptions) == (len(STEM), 0)


def test_chunks_do_not_show(step: TorchStep, alone: Told) -> None:
    told, _ = run(step, EVERYONE, replace(LIMITS, max_batched_tokens=7))
    assert told == alone


def test_preemption_by_swap_does_not_show(step: TorchStep, alone: Told) -> None:
    told, report = run(step, EVERYONE, blocks=CRAMPED, costs=SWAP)
    assert told == alone
    assert report.swapped_blocks > 0


def test_preemption_by_recompute_does_not_show(step: TorchStep, alone: Told) -> None:
    told, report = run(step, EVERYONE, blocks=CRAMPED, costs=RECOMPUTE)
    assert told == alone
    assert (report.swapped_blocks, report.recomputed_tokens > 0) == (0, True)
