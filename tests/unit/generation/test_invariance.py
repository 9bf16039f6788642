"""In float32 on the CPU the very bits of a token's log-probability are its own: batch mates, chunks, prefix hits,
preemption by recompute and by swap never show in them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock_api.limits import Discipline
from penstock_runtime.batching.tokens.scheduler import TokenScheduler
from penstock_runtime.generation.limits import GenerationLimits, Preemption
from penstock_runtime.generation.messages import TokensEmitted
from penstock_runtime.generation.options import DType, StepOptions
from penstock_runtime.generation.params import SamplingParams
from penstock_runtime.generation.step.native.decoder import NativeDecoder
from penstock_runtime.generation.step.open import open_step
from penstock_runtime.generation.step.torch_step import TorchStep

from .driver import Driver, ask
from .models import CONFIGS, VOCABULARY, save

PROMPTS = [
    np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    for seed, length in enumerate([30, 3, 17, 61, 8, 1])
]
PARAMS = SamplingParams(max_tokens=24, temperature=0.9, top_p=0.95, seed=11, logprobs=0)
LIMITS = GenerationLimits(
    generation=1,
    max_batch_size=6,
    max_batched_tokens=64,
    max_queue_depth=100,
    discipline=Discipline.PRIORITY,
    preemption=Preemption.LOWER_PRIORITY,
)


@pytest.fixture(scope="module", params=list(CONFIGS))
def step(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TorchStep:
    folder: Path = save(request.param, tmp_path_factory.mktemp(request.param))
    options = StepOptions(
        dtype=DType.FLOAT32,
        cache_bytes=1 << 20,
        host_cache_bytes=1 << 18,
        block_tokens=8,
        batch_invariant=True,
    )
    return open_step(folder, options, "tiny")


Told = dict[str, list[tuple[int, float]]]


def run(step: TorchStep, blocks: int, limits: GenerationLimits, names: list[int]) -> Told:
    """Every token with the bits of its log-probability."""
    info = replace(step.info, kv=replace(step.info.kv, blocks=blocks))
    driver = Driver(step, TokenScheduler(info, limits))
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
    return told


def test_the_bits_of_an_answer_are_its_own(step: TorchStep) -> None:
    assert isinstance(step._decoder, NativeDecoder)
    everyone = list(range(len(PROMPTS)))
    alone: Told = {}
    for name in everyone:
        alone |= run(step, step.info.kv.blocks, LIMITS, [name])
    together = run(step, step.info.kv.blocks, LIMITS, everyone)
    chunked = run(step, step.info.kv.blocks, replace(LIMITS, max_batched_tokens=7), everyone)
    cramped = run(step, 14, LIMITS, everyone)
    assert together == alone
    assert chunked == alone
    assert cramped == alone
