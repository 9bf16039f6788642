"""Level Default: in the model's own dtype every chosen token is the reference's best, or as good within rounding."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from penstock_runtime.generation.options import DType, StepOptions
from penstock_runtime.generation.runner import InlineRunner
from penstock_runtime.generation.step.open import open_step

from .models import save
from .scenarios import Scenario, prompts, references

auto: Any = AutoModelForCausalLM
Logits = Callable[[list[int]], torch.Tensor]


def teacher(folder: Path, dtype: torch.dtype) -> Logits:
    """Return what gives the logits (tokens, vocabulary) after each of some ids, in float64."""
    model = auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager")

    def logits(ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            found: torch.Tensor = model(torch.tensor([ids])).logits[0].double()
        return found

    return logits


def measured_eps(folder: Path, dtype: torch.dtype) -> float:
    """Return the most that this dtype moves a logit, over all reference answers."""
    exact, rounded = teacher(folder, torch.float64), teacher(folder, dtype)
    answers = references(folder, torch.float64)
    whole = [[*prompt, *answer] for prompt, answer in zip(prompts(), answers, strict=True)]
    return max(float((exact(ids) - rounded(ids)).abs().max()) for ids in whole)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.BFLOAT16])
@pytest.mark.parametrize("family", ["llama"])
def test_every_token_is_as_good_as_the_references_best(
    family: str, dtype: DType, tmp_path: Path
) -> None:
    folder, torch_dtype = save(family, tmp_path), getattr(torch, dtype.value)
    options = StepOptions(
        dtype=dtype, cache_bytes=1 << 20, host_cache_bytes=1 << 20, block_tokens=8
    )
    step = open_step(folder, options, "tiny")
    eps, judge = measured_eps(folder, torch_dtype), teacher(folder, torch_dtype)
    expected, matched, total = references(folder, torch.float64), 0, 0
    for seed in range(2):
        scenario = Scenario(step, seed, InlineRunner(step))
        scenario.live(turns=10)
        scenario.check_ends()
        for which, tokens, ids in scenario.answers():
            matched += ids == list(expected[which][:tokens])
            total += 1
            prompt = list(prompts()[which])
            logits = judge([*prompt, *ids])[len(prompt) - 1 : -1]
            chosen = logits.gather(1, torch.tensor(ids)[:, None])[:, 0]
            assert (chosen >= logits.max(dim=1).values - 2 * eps).all()
    print(f"{family} {dtype.value}: eps {eps:.2e}, {matched} of {total} answers equal float64's")
    assert total > 10
