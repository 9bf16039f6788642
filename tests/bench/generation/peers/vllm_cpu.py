"""Peer: vLLM's CPU build, in its own virtual environment (see `environments.py`)."""

from pathlib import Path
from time import perf_counter as now

import vllm

from tests.bench.generation.workload import CONCURRENCY, Work

MODEL_LENGTH = 1024


class Peer:
    """A loaded model, compiled once; the concurrency is set for each work."""

    eager = False

    def __init__(self, folder: Path, dtype: str) -> None:
        self._engine = vllm.LLM(
            str(folder),
            dtype=dtype,
            skip_tokenizer_init=True,
            max_model_len=MODEL_LENGTH,
            max_num_seqs=max(CONCURRENCY),
            enable_prefix_caching=False,
            enforce_eager=self.eager,
            seed=0,
        )
        how = "eager" if self.eager else "compiled, its default"
        self.about = f"vllm {vllm.__version__} on cpu, {how}"
        self.idle_share = None

    def run(self, work: Work) -> float:
        """Return the seconds of all requests."""
        scheduler = self._engine.llm_engine.engine_core.engine_core.scheduler
        scheduler.max_num_active_reqs = work.concurrency
        params = [
            vllm.SamplingParams(
                temperature=0.0, max_tokens=request.answer, ignore_eos=True, detokenize=False
            )
            for request in work.requests
        ]
        prompts = [{"prompt_token_ids": list(request.prompt)} for request in work.requests]
        began = now()
        outputs = self._engine.generate(prompts, params, use_tqdm=False)
        seconds = now() - began
        generated = sum(len(output.outputs[0].token_ids) for output in outputs)
        if generated != sum(request.answer for request in work.requests):
            raise RuntimeError(
                f"{generated} tokens generated, expected {sum(request.answer for request in work.requests)}"
            )
        return seconds
