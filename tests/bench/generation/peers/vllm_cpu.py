"""vLLM's CPU build, in a virtual environment of its own (see `environments.py`)."""

from pathlib import Path

import vllm

from tests.bench.generation.clock import now
from tests.bench.generation.workload import CONCURRENCY, Work

MODEL_LENGTH = 1024


class Peer:
    """One loaded model, compiled once: how many requests run together is set anew for each work."""

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
                temperature=0.0, max_tokens=ask.answer, ignore_eos=True, detokenize=False
            )
            for ask in work.asks
        ]
        prompts = [{"prompt_token_ids": list(ask.prompt)} for ask in work.asks]
        began = now()
        outputs = self._engine.generate(prompts, params, use_tqdm=False)
        seconds = now() - began
        made = sum(len(output.outputs[0].token_ids) for output in outputs)
        if made != sum(ask.answer for ask in work.asks):
            raise RuntimeError(f"{made} tokens came of {sum(ask.answer for ask in work.asks)}")
        return seconds
