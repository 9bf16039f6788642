"""transformers' `generate()`, one request after the other: what most people begin with."""

from pathlib import Path
from time import perf_counter as now
from typing import Any

import torch
import transformers

from tests.bench.generation.workload import Work

auto: Any = transformers.AutoModelForCausalLM


class Peer:
    """One loaded model."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._model = auto.from_pretrained(folder, dtype=getattr(torch, dtype))
        self.about = f"transformers {transformers.__version__}"
        self.idle_share = None

    def run(self, work: Work) -> float | None:
        """Return the seconds of all requests; None beyond one at a time, which this peer cannot."""
        if work.concurrency > 1:
            return None
        began = now()
        for request in work.requests:
            ids = torch.tensor([request.prompt])
            self._model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=request.answer,
                min_new_tokens=request.answer,
                do_sample=False,
                pad_token_id=0,
            )
        return now() - began
