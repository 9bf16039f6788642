"""`GenerationClient`: the HTTP side of a generation engine."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeGuard

from prometheus_client.registry import Collector
from typing_extensions import override

from penstock_api.pod_contract import (
    MAX_BATCH_SIZE,
    MAX_BATCHED_TOKENS,
    Envelope,
    GenerationCurveSums,
    LimitsUpdate,
    Range,
    State,
)
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.continuous.grammar.server import GrammarVocabulary
from penstock_runtime.engine.continuous.grammar.service import GrammarService
from penstock_runtime.engine.continuous.limits import max_sequence_tokens
from penstock_runtime.engine.continuous.messages import GenerationReport, Stepped
from penstock_runtime.engine.continuous.service_curve import GenerationSums
from penstock_runtime.engine.link.generation import GenerationLink
from penstock_runtime.engine.messages import EngineDied, EngineReport
from penstock_runtime.engine.model import ModelInfo, ModelLoadFailed
from penstock_runtime.engine.service_time import ServiceTimeSums
from penstock_runtime.errors import NotServing
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.engine_client import EngineClient
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.handover.messages import model_identity
from penstock_runtime.serving.generation.handover.peers import MIN_ABSENT_SECONDS, Peers
from penstock_runtime.serving.generation.handover.relay import HandOver
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.serving.generation.metrics import GenerationCollector
from penstock_runtime.serving.health import Health
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.state import ServingState
from penstock_runtime.text.encoding import TextEncoder
from penstock_runtime.text.tokenizer import InvalidTokenizer, load_tokenizer

PLATFORM: Final = "transformers"
"""Platform in Open Inference metadata."""


class GenerationClient(EngineClient):
    """Owns the link, the admission, the tokenizer and the grammars of a generative model."""

    admission: GenerationAdmission
    link: GenerationLink

    def __init__(
        self,
        config: RuntimeConfig,
        link: GenerationLink,
        folder: Path,
        state: ServingState,
        admission: GenerationAdmission,
    ) -> None:
        """`folder` contains the model and its tokenizer."""
        self.link = link
        self.admission = admission
        self.tokens = admission.tokens
        self.serving: Serving | None = None
        """The loaded model; None while it loads."""
        self.report: GenerationReport | None = None
        """The engine's last report."""
        self._config = config
        self._folder = folder
        self._live = state.live
        self._grammars = GrammarService(state.now)
        self._now = state.now
        url = config.drain.peer_url
        self._peers = Peers(url, config.http.tls_folder) if url else None
        self._max_running = MAX_BATCH_SIZE
        """Largest batch cap that memory allows; that of the API before the model is loaded."""

    @override
    async def load(self, deliver: Callable[[Stepped | EngineDied], None]) -> ModelInfo:
        """Load the tokenizer first, because it is small and often the part that is missing."""
        began = self._now()
        try:
            tokenizer = await asyncio.to_thread(load_tokenizer, self._folder)
        except InvalidTokenizer as error:
            raise ModelLoadFailed(str(error)) from error
        info = await self.link.start(deliver)
        if self._peers is not None:
            self._peers.absent_seconds = max(MIN_ABSENT_SECONDS, 2 * (self._now() - began))
        self._max_running = info.cap_bound
        hold = self.admission.memory.hold_apart
        encoder = TextEncoder(
            tokenizer, max_sequence_tokens(info), hold, self._config.queue.max_held_bytes
        )
        self.serving = Serving(info, tokenizer, self._grammars, encoder)
        return ModelInfo(
            self._config.model_name, PLATFORM, info.backend, (), (), max_rows=info.cap_bound
        )

    @override
    def start_helpers(self) -> None:
        """Start the process that compiles grammars."""
        serving = self.require_serving()
        ends = tuple(sorted(serving.own_ends))
        tokens = GrammarVocabulary(serving.tokenizer.to_json(), serving.info.vocabulary, ends)
        self._grammars.start(tokens)

    @override
    def record(self, report: Stepped) -> None:
        self.report = report.report
        self._live.deliver(engine_report(report.report, self._max_running))
        if report.step is not None:
            self.tokens.prefill_tokens += report.step.prefill_tokens
        self.admission.deliver_events(report.events)

    @override
    async def close(self) -> None:
        await super().close()
        await self._grammars.close()
        if self._peers is not None:
            await self._peers.close()

    def require_serving(self) -> Serving:
        """Return the loaded model.

        Raises:
            NotServing: it is still loading.
        """
        if self.serving is None:
            raise NotServing("Loading", "the model is loading: retry shortly")
        return self.serving

    def hand_over(self, headers: Mapping[str, str]) -> HandOver | None:
        """Return the hand-over of a request with the `headers` that identify its client; None: this pod has no peers."""
        if self._peers is None:
            return None
        identity = model_identity(self.require_serving().info)
        return HandOver(self._peers, headers, identity, self.tokens, self._now)

    @override
    def extend_state(self, state: State) -> State:
        report, serving = self.report, self.serving
        if report is None or serving is None:
            return state
        return state.model_copy(
            update={
                "generation_curve": _wire_curve(report.curve),
                "previous_generation_curve": _wire_curve(report.previous_curve),
                "attention": serving.info.attention,
                "dtype": serving.info.dtype,
                "model_backend": serving.info.model_backend,
            }
        )

    @override
    def envelope(self) -> Envelope:
        """Bound the tokens of a step by what the cache holds."""
        envelope = super().envelope()
        if self.serving is None:
            return envelope
        tokens = Range(min=1, max=min(self.serving.info.kv.tokens, MAX_BATCHED_TOKENS))
        return envelope.model_copy(update={"max_batched_tokens": tokens})

    @override
    def context_tokens(self) -> int | None:
        return None if self.serving is None else self.serving.info.max_model_len

    @override
    def cache_usage(self) -> float:
        """Return the share of blocks in use; blocks that can be evicted at once are free."""
        if self.report is None or self.serving is None:
            return 0.0
        return self.report.used_blocks / self.serving.info.kv.blocks

    @override
    def collectors(self) -> Sequence[Collector]:
        return [GenerationCollector(self)]


GenerationPod = Pod[GenerationAdmission, GenerationClient]


def make_generation_pod(
    config: RuntimeConfig,
    link: GenerationLink,
    folder: Path,
    first: LimitsUpdate,
    now: Callable[[], float] = time.monotonic,
) -> GenerationPod:
    """Return the pod of a generation engine; the model is not loaded yet."""
    state = ServingState(LiveLimits(first, link.send), Health(), Counters(), now)
    admission = GenerationAdmission(
        link.send, state, GenerationCounters(), config.queue.max_held_bytes
    )
    client = GenerationClient(config, link, folder, state, admission)
    return Pod(config, state, admission, client)


def serves_generation(pod: Pod) -> TypeGuard[GenerationPod]:
    """Return whether a generation engine is behind `pod`."""
    return isinstance(pod.engine, GenerationClient)


def engine_report(report: GenerationReport, max_running: int) -> EngineReport:
    """Return the part of a report that all engines share; the service curve of generation is reported apart."""
    return EngineReport(
        waiting=report.waiting,
        running=report.running_requests,
        generation=report.generation,
        converging=report.converging,
        batch_cap_bound=max_running,
        busy_seconds=report.busy_seconds,
        curve=ServiceTimeSums(),
        surplus=report.surplus,
        running_batch_work=report.running_batch_work,
    )


def _wire_curve(sums: GenerationSums | None) -> GenerationCurveSums | None:
    return None if sums is None else GenerationCurveSums(epoch=sums.epoch, sums=sums.sums)
