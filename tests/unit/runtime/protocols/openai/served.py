"""A generating pod on loopback: real servers, a real engine in a thread, and a tiny model whose steps a test can block."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from penstock_api.pod_contract import Discipline, LimitsUpdate
from penstock_api.types.model import ModelSpec
from penstock_runtime.config import (
    AuthConfig,
    FilesConfig,
    GenerationConfig,
    HttpConfig,
    PodConfig,
    RuntimeConfig,
)
from penstock_runtime.engine.continuous.sequence import SampledToken
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.continuous.steps.options import Compute, DType, StepOptions
from penstock_runtime.engine.continuous.steps.sampling_inputs import SamplingInputs
from penstock_runtime.engine.continuous.steps.step_plan import Row, StepPlan, StepResult
from penstock_runtime.engine.link.generation import generation_thread_link
from penstock_runtime.http.server import ClientServer, ClusterServer
from penstock_runtime.models.decoders.open import open_step
from penstock_runtime.serving.generation.client import GenerationPod, make_generation_pod
from penstock_runtime.telemetry.metrics import Exposition
from tests.support.demo_model.tokenizer import make_tokenizer, save_tokenizer
from tests.unit.runtime.settings import with_settings

T = TypeVar("T")
NAME = "tiny"
POSITIONS = 1024
END = 0
"""The token that ends an answer."""
LIMITS = LimitsUpdate(
    generation=1,
    max_batch_size=8,
    max_queue_depth=64,
    max_queue_delay_milliseconds=0,
    discipline=Discipline.FIRST_IN_FIRST_OUT,
)


def save_tiny_model(
    folder: Path, positions: int = POSITIONS, dtype: torch.dtype = torch.float32
) -> None:
    """Write an untrained Llama with the demo's tokenizer; its output is gibberish, and always the same."""
    torch.manual_seed(3)
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=END,
    )
    model = LlamaForCausalLM(config)
    torch.nn.Module.to(model, dtype)
    model.save_pretrained(folder)
    save_tokenizer(make_tokenizer(), folder)


class GatedStep:
    """A step that waits while its gate is closed, counts its runs, and returns scripted tokens if there are any."""

    def __init__(self, step: StepExecutor) -> None:
        self._step = step
        self.info = step.info
        self.gate = threading.Event()
        self.gate.set()
        self.steps = 0
        self.waiting_at_gate = False
        """Whether a step waits at the gate: later requests are in no earlier step."""
        self.script: tuple[int, ...] = ()
        """Tokens of every answer, followed by the end; empty: those of the model."""

    def run(self, plan: StepPlan, inputs: Callable[[], SamplingInputs]) -> StepResult:
        """Run the step once the gate is open."""
        if not self.gate.is_set():
            self.waiting_at_gate = True
            assert self.gate.wait(30)
            self.waiting_at_gate = False
        self.steps += 1
        result = self._step.run(plan, inputs)
        if self.script:
            result.sampled = [
                token and self._scripted(row)
                for token, row in zip(result.sampled, plan.rows, strict=True)
            ]
        return result

    def _scripted(self, row: Row) -> SampledToken:
        position = row.start + row.count - row.sequence.request.prompt_tokens
        return SampledToken(self.script[position] if position < len(self.script) else END)


class Served:
    """A pod in a thread with its own event loop."""

    def __init__(
        self, folder: Path, limits: LimitsUpdate = LIMITS, depth: int = 1, **config: Any
    ) -> None:
        """At depth 1 steps overlap with planning, as on two cores."""
        self.config = with_settings(a_config(folder), **config)
        self.step: GatedStep
        self.pod: GenerationPod
        self.clients: ClientServer
        self.loop = asyncio.new_event_loop()
        self._folder, self._limits, self._depth = folder, limits, depth
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.url, self.cluster_url = self.wait(self._start())

    def wait(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        """Run `work` in the pod's loop, and return its result."""
        future: Future[T] = asyncio.run_coroutine_threadsafe(work, self.loop)
        return future.result(seconds)

    def ask(self, read: Callable[[], T]) -> T:
        """Return the result of `read` in the pod's loop, which owns all state."""

        async def work() -> T:
            return read()

        return self.wait(work())

    def until(self, holds: Callable[[], bool], seconds: float = 20) -> None:
        """Wait until `holds`, which is called in the pod's loop."""

        async def work() -> None:
            async with asyncio.timeout(seconds):
                while not holds():  # noqa: ASYNC110 - the state has many owners
                    await asyncio.sleep(0.002)

        self.wait(work())

    @contextmanager
    def held_still(self) -> Iterator[None]:
        """Block every step within the block."""
        self.step.gate.clear()
        try:
            yield
        finally:
            self.step.gate.set()

    def when_submitted(self, then: Callable[[], object], seconds: float = 0.0) -> None:
        """Call `then` in the pod's loop, `seconds` after the engine has another request."""

        def submitted() -> int:
            load = self.pod.admission.load()
            return load.waiting + load.running

        async def work() -> None:
            before = submitted()
            while submitted() <= before:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            await asyncio.sleep(seconds)
            then()

        asyncio.run_coroutine_threadsafe(work(), self.loop)

    def close(self) -> None:
        """Stop everything."""
        self.step.gate.set()
        self.wait(self._stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    async def _start(self) -> tuple[str, str]:
        link = generation_thread_link(self._open, self._limits, depth=self._depth)
        self.pod = make_generation_pod(self.config, link, self._folder, self._limits)
        exposition = Exposition(self.pod)
        self.clients, self._cluster = (
            ClientServer(self.pod, exposition),
            ClusterServer(self.pod, exposition),
        )
        ports = await self.clients.start(), await self._cluster.start()
        await self.pod.load()
        return f"http://127.0.0.1:{ports[0]}", f"http://127.0.0.1:{ports[1]}"

    def _open(self) -> StepExecutor:
        self.step = GatedStep(open_step(self._folder, self.config.generation.step, NAME))
        return self.step

    async def _stop(self) -> None:
        await self.clients.stop()
        await self._cluster.stop()
        await self.pod.close()


def a_config(folder: Path) -> RuntimeConfig:
    """Return the configuration of a pod for the tiny model in `folder`."""
    claim = {"claimName": "models", "path": "."}
    source = {"type": "PersistentVolumeClaim", "persistentVolumeClaim": claim}
    return RuntimeConfig(
        model=ModelSpec.model_validate({"name": NAME, "task": "TextGeneration", "source": source}),
        pod=PodConfig(pool="pool", name="pool-0"),
        files=FilesConfig(model_folder=folder, termination_log=folder / "termination-log"),
        http=HttpConfig(host="127.0.0.1", client_port=0, cluster_port=0),
        auth=AuthConfig(insecure_control=True),
        generation=GenerationConfig(
            StepOptions(Compute.OPENVINO, DType.FLOAT32, cache_bytes=2**22)
        ),
    )
