"""Whatever shares its steps, a greedy generation has the ids of transformers' own, alone, in float64."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import InlineRunner, StepThread, ThreadRunner
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request
from tests.unit.runtime.engine.continuous.fifo import FifoScheduler
from tests.unit.runtime.models.decoders.tiny_models import GENERIC, KNOWN, VOCABULARY, save

PROMPTS = [
    np.random.default_rng(seed).integers(0, VOCABULARY, length).tolist()
    for seed, length in enumerate([1, 40, 7, 16, 23, 3])
]


@pytest.fixture(scope="module", params=[*KNOWN, *GENERIC])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(request.param, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def step(folder: Path) -> TorchStep:
    options = StepOptions(
        dtype=DType.FLOAT64, cache_bytes=1 << 20, block_tokens=8, max_model_len=64
    )
    return open_step(folder, options, "tiny")


@pytest.fixture(scope="module")
def expected(folder: Path) -> list[list[int]]:
    model: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )
    return [_alone(model, prompt, 20) for prompt in PROMPTS]


def _alone(model: Any, prompt: list[int], tokens: int) -> list[int]:
    ids = model.generate(
        torch.tensor([prompt]), max_new_tokens=tokens, do_sample=False, pad_token_id=0
    )
    alone: list[int] = ids[0, len(prompt) :].tolist()
    return alone


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("budget", [5, 64])
def test_greedy_ids_are_those_of_a_model_that_runs_alone(
    step: TorchStep, expected: list[list[int]], depth: int, budget: int
) -> None:
    scheduler = FifoScheduler(step.info.kv, cap=4, budget=budget)
    with closing(StepThread()) as thread:
        runner = ThreadRunner(step, thread) if depth else InlineRunner(step)
        driver = Driver(step, scheduler, runner)
        for index, prompt in enumerate(PROMPTS):
            driver.engine.take(generate_request(str(index), prompt, tokens=20), driver.now)
        driver.run()
    assert [driver.tokens[str(index), 0] for index in range(len(PROMPTS))] == expected
    assert len(scheduler.free) == step.info.kv.blocks
