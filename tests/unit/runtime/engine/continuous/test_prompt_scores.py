"""Log-probabilities of prompts: those of the untouched model, however the prompt was cut, shared or computed again."""

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import GenerationLimits, Preemption
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.preemption import PreemptionCosts
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.options import DType, StepOptions
from penstock_runtime.engine.continuous.steps.runner import StepThread, ThreadRunner
from penstock_runtime.engine.messages import SetLimits
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.driver import Driver, generate_request, limits_update
from tests.unit.runtime.engine.continuous.scenarios import RECOMPUTE, SWAP, prompts
from tests.unit.runtime.models.decoders.tiny_models import save

ALTERNATIVES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("llama", tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def step(folder: Path) -> TorchStep:
    options = StepOptions(
        dtype=DType.FLOAT64, cache_bytes=1 << 20, host_cache_bytes=1 << 20, block_tokens=8
    )
    return open_step(folder, options, "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager"
    )


def limits(
    generation: int, cap: int, budget: int, preemption: Preemption = Preemption.TIME_SLICE
) -> GenerationLimits:
    return GenerationLimits(generation, cap, budget, 100, Discipline.FIRST_IN_FIRST_OUT, preemption)


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("costs", [RECOMPUTE, SWAP], ids=["recompute", "swap"])
def test_scores_are_the_untouched_models_under_chunks_prefixes_and_preemption(
    step: TorchStep, model: Any, depth: int, costs: PreemptionCosts
) -> None:
    info = replace(step.info, kv=replace(step.info.kv, blocks=12))
    scheduler = TokenScheduler(info, limits(1, 3, 5), costs)
    with closing(StepThread()) as thread:
        runner = ThreadRunner(step, thread)
        runner.depth = depth
        driver = Driver(step, scheduler, runner)
        asked = prompts()[:8]
        for index, prompt in enumerate(asked):
            params = SamplingParams(
                max_tokens=12, temperature=0.0, prompt_logprobs=ALTERNATIVES if index % 4 else None
            )
            request = generate_request(str(index), list(prompt), params=params, n=1 + index % 2)
            driver.engine.take(request, driver.now)
        for generation in range(2, 40):
            driver.turn()
            cap = 1 + generation % 3
            driver.engine.take(
                SetLimits(limits_update(limits(generation, cap, 3 + cap))), driver.now
            )
        driver.run()
    assert scheduler.report().preemptions > 0
    scheduler.kv.check()
    assert set(driver.scores) == {str(n) for n in range(8) if n % 4}
    for name, scored in driver.scores.items():
        ids = torch.tensor(asked[int(name)])
        with torch.inference_mode():
            expected = model(ids[None]).logits[0, :-1].log_softmax(-1)
        own = expected.gather(1, ids[1:, None]).flatten()
        chosen = torch.tensor([score.chosen for score in scored], dtype=torch.float64)
        # norms of a float64 model are computed in float32, and round differently in other groupings
        torch.testing.assert_close(chosen, own, rtol=1e-5, atol=1e-5)
        assert [score.rank for score in scored] == ((expected > own[:, None]).sum(-1) + 1).tolist()
        best = expected.topk(ALTERNATIVES).indices.tolist()
        assert [[other for other, _ in score.top] for score in scored] == best
