"""Peer: this project's engine in-process, with scheduler, block manager, compute backend and sampler, without HTTP."""

from functools import partial
from pathlib import Path
from time import perf_counter as now

import torch

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.engine import GenerationEngine
from penstock_runtime.engine.continuous.limits import GenerationLimits, Preemption
from penstock_runtime.engine.continuous.loop import Loop, LoopPorts
from penstock_runtime.engine.continuous.messages import Ended, Generate, Generated, Stepped
from penstock_runtime.engine.continuous.opening import open_runner
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.machine import spare_the_collector, this_machine
from penstock_runtime.engine.placement import step_depth
from penstock_runtime.models.decoders.open import open_step
from tests.bench.generation.workload import Work

BUDGET = 512
CACHE_BYTES = 1 << 30


class _NoPulse:
    def begin(self, predicted_seconds: float) -> None:
        """Do nothing."""

    def tick(self) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""

    def tick_idle(self) -> None:
        """Do nothing."""


class Peer:
    """A loaded model with the backend and depth that a pod on this machine has.

    Each work gets a new scheduler, so that there are no prefix-cache hits from an earlier work.
    """

    compute = Compute.AUTO
    budget = BUDGET
    """Tokens per step."""

    def __init__(self, folder: Path, dtype: str, device: torch.device | None = None) -> None:
        options = StepOptions(self.compute, DType(dtype), cache_bytes=CACHE_BYTES)
        load = partial(open_step, folder, options, folder.name, device)
        self._step, self._runner = open_runner(load, step_depth(this_machine()))
        spare_the_collector()  # as every process that serves does
        self.about = f"{self._step.info.attention}, depth {self._runner.depth}"
        self.idle_share = 0.0

    def run(self, work: Work) -> float:
        """Return the seconds from the first request to the last end."""
        limits = GenerationLimits(
            generation=1,
            max_batch_size=work.concurrency,
            max_batched_tokens=max(self.budget, work.concurrency),
            max_queue_depth=len(work.requests),
            discipline=Discipline.PRIORITY,
            preemption=Preemption.LOWER_PRIORITY,
        )
        scheduler = TokenScheduler(self._step.info, limits)
        engine = GenerationEngine(self._step.info, scheduler)
        self._ended, self._busy, self._idle = 0, 0.0, 0.0
        loop = Loop(engine, self._runner, LoopPorts(self._take, _NoPulse(), now))
        began = now()
        for index, request in enumerate(work.requests):
            params = SamplingParams(max_tokens=request.answer, temperature=0.0)
            engine.take(Generate(str(index), request.prompt, params, arrived=began), began)
        while self._ended < len(work.requests):
            loop.turn()
        seconds = now() - began
        self.idle_share = self._idle / max(self._idle + self._busy, 1e-9)
        return seconds

    def _take(self, stepped: Stepped) -> None:
        if stepped.step is not None:
            self._busy += stepped.step.seconds
            self._idle += stepped.step.idle_seconds
        for event in stepped.events:
            if isinstance(event, Ended):
                if not isinstance(event.end, Generated):
                    raise RuntimeError(f"request {event.id} ended as {event.end}")
                self._ended += 1
