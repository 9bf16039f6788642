"""transformers' own model as the judge of answers: what it says of every position of what was generated."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from penstock_runtime.models.decoders.packing import positions_of
from penstock_runtime.models.decoders.step import TorchStep
from tests.unit.runtime.engine.continuous.scenarios import prompts, references
from tests.unit.runtime.models.decoders.tiny_models import VOCABULARY

auto: Any = AutoModelForCausalLM
Logits = Callable[[list[int]], torch.Tensor]


CPU = torch.device("cpu")


def teacher(folder: Path, dtype: torch.dtype, device: torch.device = CPU) -> Logits:
    """Return what gives the logits (tokens, vocabulary) after each of some ids, in float64 on the CPU."""
    model = auto.from_pretrained(folder, dtype=dtype, attn_implementation="eager").to(device)

    def logits(ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            given = torch.tensor([ids], device=device)
            last: torch.Tensor = model(given).logits[0].double().cpu()
        return last

    return logits


def measured_eps(
    folder: Path, dtype: torch.dtype, scale: int = 1, device: torch.device = CPU
) -> float:
    """Return the most that this dtype moves a logit on `device`, over all reference answers."""
    exact, rounded = teacher(folder, torch.float64), teacher(folder, dtype, device)
    answers = references(folder, torch.float64, scale)
    whole = [[*prompt, *answer] for prompt, answer in zip(prompts(scale), answers, strict=True)]
    return max(float((exact(ids) - rounded(ids)).abs().max()) for ids in whole)


def accepts(judge: Logits, prompt: tuple[int, ...], ids: list[int], eps: float) -> bool:
    """Return whether each of `ids` is the judge's best after what is before it, or as good within 2 eps."""
    logits = judge([*prompt, *ids])[len(prompt) - 1 : -1]
    chosen = logits.gather(1, torch.tensor(ids)[:, None])[:, 0]
    return bool((chosen >= logits.max(dim=1).values - 2 * eps).all())


def mean_errors(step: TorchStep, folder: Path) -> tuple[float, float]:
    """Return how far the logits of `step`, and those of transformers in its dtype, are from float64's, on average."""
    length, block = 150, step.info.kv.block_tokens
    ids = np.random.default_rng(3).integers(0, VOCABULARY, length)
    table = np.random.default_rng(4).permutation(-(-length // block))[None].astype(np.int32)
    packed = positions_of(ids, table, np.array([0]), np.array([0, length]), block)
    packed.last = np.arange(length)
    ours = torch.as_tensor(step._decoder.forward(packed)).double()
    exact = teacher(folder, torch.float64)(ids.tolist())
    theirs = teacher(folder, getattr(torch, step.info.dtype))(ids.tolist())
    return (ours - exact).abs().mean().item(), (theirs - exact).abs().mean().item()
