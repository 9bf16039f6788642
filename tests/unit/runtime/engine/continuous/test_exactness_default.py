"""Level Default: in the model's own dtype every chosen token is the reference's best, or as good within rounding.

On torch; `models/decoders/test_openvino.py` covers OpenVINO.
"""

from functools import partial
from pathlib import Path

import pytest
import torch

from penstock_runtime.engine.continuous.opening import open_runner
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.models.decoders.open import open_step
from tests.unit.runtime.engine.continuous.scenarios import Scenario, prompts, references
from tests.unit.runtime.models.decoders.teacher import accepts, measured_eps, teacher
from tests.unit.runtime.models.decoders.tiny_models import save


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3"])
def test_every_token_is_as_good_as_the_references_best(
    family: str, dtype: DType, tmp_path: Path
) -> None:
    folder, torch_dtype = save(family, tmp_path), getattr(torch, dtype.value)
    options = StepOptions(
        Compute.TORCH, dtype, cache_bytes=1 << 20, host_cache_bytes=1 << 20, block_tokens=8
    )
    step, runner = open_runner(partial(open_step, folder, options, "tiny"), depth=1)
    eps, judge = measured_eps(folder, torch_dtype), teacher(folder, torch_dtype)
    expected, matched, total = references(folder, torch.float64), 0, 0
    for seed in range(2):
        runner.depth = seed % 2
        scenario = Scenario(step, seed, runner)
        scenario.live(turns=10)
        scenario.check_ends()
        for which, tokens, ids in scenario.answers():
            matched += ids == list(expected[which][:tokens])
            total += 1
            assert accepts(judge, prompts()[which], ids, eps)
    runner.close()
    print(f"{family} {dtype.value}: eps {eps:.2e}, {matched} of {total} answers equal float64's")
    assert total > 10
