"""Peer: OpenVINO GenAI's continuous batching, in its own virtual environment (see `environments.py`)."""

from collections import deque
from pathlib import Path
from time import perf_counter as now
from typing import Any

import numpy as np
import openvino as ov
import openvino_genai as genai
from optimum.intel import OVModelForCausalLM

from tests.bench.generation.workload import PromptRequest, Work

CACHE_GIB = 1


class Peer:
    """A converted model with a pipeline for each concurrency.

    Requests are added as slots become free, because `max_num_seqs` has no effect while prompts are split and fused.
    """

    def __init__(self, folder: Path, dtype: str) -> None:
        self._folder = folder / "openvino"
        if not self._folder.exists():
            OVModelForCausalLM.from_pretrained(
                folder, export=True, compile=False, load_in_8bit=False
            ).save_pretrained(self._folder)
        self._precision = {"float32": "f32", "bfloat16": "bf16"}[dtype]
        self._pipelines: dict[int, genai.ContinuousBatchingPipeline] = {}
        self.about = f"openvino-genai {genai.__version__}"
        self.idle_share = None

    def run(self, work: Work) -> float:
        """Return the seconds of all requests."""
        pipeline, generated = self._pipeline(work.concurrency), 0
        waiting, running = deque(enumerate(work.requests)), list[Any]()
        began = now()
        while waiting or running:
            while waiting and len(running) < work.concurrency:
                running.append(_begun(pipeline, *waiting.popleft()))
            pipeline.step()
            ended = [
                handle
                for handle in running
                if handle.get_status() != genai.GenerationStatus.RUNNING
            ]
            for handle in ended:
                running.remove(handle)
                generated += len(handle.read_all()[0].generated_ids)
        seconds = now() - began
        if generated != sum(request.answer for request in work.requests):
            raise RuntimeError(
                f"{generated} tokens generated, expected {sum(request.answer for request in work.requests)}"
            )
        return seconds

    def _pipeline(self, concurrency: int) -> genai.ContinuousBatchingPipeline:
        if concurrency not in self._pipelines:
            scheduler = genai.SchedulerConfig()
            scheduler.cache_size = CACHE_GIB
            scheduler.max_num_seqs = concurrency
            scheduler.max_num_batched_tokens = 512
            scheduler.dynamic_split_fuse = True
            scheduler.enable_prefix_caching = False
            settings = {
                "INFERENCE_PRECISION_HINT": self._precision,
                "KV_CACHE_PRECISION": self._precision,
                "INFERENCE_NUM_THREADS": "1",
            }
            self._pipelines[concurrency] = genai.ContinuousBatchingPipeline(
                str(self._folder), scheduler, "CPU", settings, {}
            )
        return self._pipelines[concurrency]


def _begun(pipeline: genai.ContinuousBatchingPipeline, index: int, request: PromptRequest) -> Any:
    return pipeline.add_request(
        index,
        ov.Tensor(np.array([request.prompt], dtype=np.int64)),
        genai.GenerationConfig(
            max_new_tokens=request.answer,
            min_new_tokens=request.answer,
            ignore_eos=True,
            eos_token_id=0,  # the model has none, and the built-in -1 is rejected
            stop_token_ids={0},
        ),
    )
