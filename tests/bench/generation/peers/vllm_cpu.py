"""vLLM's CPU build, in a virtual environment of its own (see `environments.py`)."""

from pathlib import Path

import vllm

from tests.bench.generation.clock import now
from tests.bench.generation.workload import Work

MODEL_LENGTH = 1024


class Peer:
    """One loaded model; an engine whose concurrency is the largest that the bench asks for."""

    def __init__(self, folder: Path, dtype: str) -> None:
        self._folder, self._dtype = folder, dtype
        self._engines: dict[int, vllm.LLM] = {}
        self.about = f"vllm {vllm.__version__} on cpu"
        self.idle_share = None

    def run(self, work: Work) -> float:
        """Return the seconds of all requests."""
        engine = self._engine(work.concurrency)
        params = [
            vllm.SamplingParams(
                temperature=0.0, max_tokens=ask.answer, ignore_eos=True, detokenize=False
            )
            for ask in work.asks
        ]
        prompts = [{"prompt_token_ids": list(ask.prompt)} for ask in work.asks]
        began = now()
        outputs = engine.generate(prompts, params, use_tqdm=False)
        seconds = now() - began
        made = sum(len(output.outputs[0].token_ids) for output in outputs)
        if made != sum(ask.answer for ask in work.asks):
            raise RuntimeError(f"{made} tokens came of {sum(ask.answer for ask in work.asks)}")
        return seconds

    def _engine(self, concurrency: int) -> vllm.LLM:
        if concurrency not in self._engines:
            self._engines.clear()
            self._engines[concurrency] = vllm.LLM(
                str(self._folder),
                dtype=self._dtype,
                skip_tokenizer_init=True,
                max_model_len=MODEL_LENGTH,
                max_num_seqs=concurrency,
                enable_prefix_caching=False,
                seed=0,
            )
        return self._engines[concurrency]
