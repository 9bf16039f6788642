"""Peer: transformers' continuous batching, `generate_batch`."""

from pathlib import Path
from time import perf_counter as now
from typing import Any

import torch
import transformers
from transformers.generation.configuration_utils import ContinuousBatchingConfig

from tests.bench.generation.workload import Work

PAGES = 256
"""Pages of 256 tokens, the default size; without a limit it would allocate most of the machine's memory."""
BUDGET = 512
"""Tokens per step, equal to that of our engine."""

auto: Any = transformers.AutoModelForCausalLM
settled: Any = transformers.GenerationConfig


class Peer:
    """A loaded model; each work gets a new manager, because the concurrency is one of its settings."""

    def __init__(self, folder: Path, dtype: str, device: str = "cpu") -> None:
        self._model = auto.from_pretrained(
            folder, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        ).to(device)
        self.about = f"transformers {transformers.__version__}, paged sdpa"
        self.idle_share = None

    def run(self, work: Work) -> float | None:
        """Return the seconds of all requests."""
        settings = ContinuousBatchingConfig(
            max_requests_per_batch=work.concurrency, num_blocks=PAGES, max_batch_tokens=BUDGET
        )
        manager = self._model.init_continuous_batching(
            generation_config=settled(do_sample=False, eos_token_id=-1, pad_token_id=0),
            continuous_batching_config=settings,
        )
        manager.start()
        manager.add_request([1, 2, 3], "first", max_new_tokens=2)
        while not self._next(manager):
            pass
        began = now()
        for index, request in enumerate(work.requests):
            manager.add_request(list(request.prompt), f"r{index}", max_new_tokens=request.answer)
        left = len(work.requests)
        while left:
            left -= self._next(manager)
        seconds = now() - began
        manager.stop(block=True)
        return seconds

    def _next(self, manager: Any) -> bool:
        """Return whether the next result is a request's last; the manager's cache is laid out by the first."""
        output = manager.get_result(timeout=60)
        if output is None or output.error:
            raise RuntimeError(f"generate_batch lost a request: {output and output.error}")
        return bool(output.is_finished())
