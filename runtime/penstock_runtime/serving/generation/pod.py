"""A pod that generates: as `pod.Pod`, with a tokenizer, and an engine whose answers come in many pieces."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

from prometheus_client.registry import Collector

from penstock_api.limits import (
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
from penstock_runtime.engine.continuous.length_limit import max_sequence_tokens
from penstock_runtime.engine.continuous.messages import GenerationReport, Stepped
from penstock_runtime.engine.continuous.service_curve import GenerationSums
from penstock_runtime.engine.link.generation import GenerationLink
from penstock_runtime.engine.model import ModelInfo, ModelLoadFailed
from penstock_runtime.errors import NotServing
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.link_adapter import Face
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.serving.generation.metrics import GenerationCollector
from penstock_runtime.serving.pod import Pod
from penstock_runtime.text.encoding import TextEncoder
from penstock_runtime.text.tokenizer import TokenizerRefused, load_tokenizer


class GenerationPod(Pod):
    """Hands what the engine tells to the book; owns what only a generative model has."""

    admission: GenerationAdmission

    def __init__(
        self,
        config: RuntimeConfig,
        link: GenerationLink,
        folder: Path,
        first_limits: LimitsUpdate,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        face = Face(link, config.model_name, self._step)
        super().__init__(config, face, first_limits, now)
        self.tokens = GenerationCounters()
        self.admission = GenerationAdmission(
            link.send,
            self.live,
            self.health,
            self.counters,
            self.tokens,
            now=now,
            most_bytes=config.queue.max_held_bytes,
        )
        self.serving: Serving | None = None
        self.report: GenerationReport | None = None
        self._face = face
        self._folder = folder
        self._grammars = GrammarService(now)

    @property
    def has_fast_path(self) -> bool:
        """As `Pod.has_fast_path`; a generation is no plain request."""
        return False

    async def _load(self) -> None:
        """As `Pod._load`: first the tokenizer, which is small and often what is missing."""
        try:
            tokenizer = await asyncio.to_thread(load_tokenizer, self._folder)
        except TokenizerRefused as error:
            raise ModelLoadFailed(str(error)) from error
        await super()._load()
        info = self._face.info
        if info is not None:  # it is known once the engine has started
            hold, max_held_bytes = self.admission.hold_apart, self.config.queue.max_held_bytes
            encoder = TextEncoder(tokenizer, max_sequence_tokens(info), hold, max_held_bytes)
            serving = Serving(info, tokenizer, self._grammars, encoder)
            self.serving = serving  # before anything is awaited
            ends = tuple(sorted(serving.own_ends))
            await self._grammars.start(
                GrammarVocabulary(tokenizer.to_json(), info.vocabulary, ends)
            )

    async def close(self) -> None:
        """As `Pod.close`."""
        await super().close()
        await self._grammars.close()

    def serving_or_refuse(self) -> Serving:
        """Return the model.

        Raises:
            NotServing: it is still being loaded.
        """
        if self.serving is None:
            raise NotServing("Loading", "the model is being loaded: try again soon")
        return self.serving

    def state(self, model: ModelInfo) -> State:
        """As `Pod.state`, with what only a generative model has."""
        plain, report, serving = super().state(model), self.report, self.serving
        if report is None or serving is None:
            return plain
        return plain.model_copy(
            update={
                "generation_curve": _wire_curve(report.curve),
                "previous_generation_curve": _wire_curve(report.previous_curve),
                "attention": serving.info.attention,
                "dtype": serving.info.dtype,
            }
        )

    def envelope(self) -> Envelope:
        """As `Pod.envelope`: a step cannot have more tokens than the cache holds."""
        plain = super().envelope()
        if self.serving is None:
            return plain
        tokens = Range(min=1, max=min(self.serving.info.kv.tokens, MAX_BATCHED_TOKENS))
        return plain.model_copy(update={"max_batched_tokens": tokens})

    @property
    def context_tokens(self) -> int | None:
        """As `Pod.context_tokens`."""
        return None if self.serving is None else self.serving.info.max_model_len

    def cache_usage(self) -> float:
        """As `Pod.cache_usage`: what could be given up at once is not in use."""
        if self.report is None or self.serving is None:
            return 0.0
        return self.report.used_blocks / self.serving.info.kv.blocks

    def collectors(self) -> list[Collector]:
        """As `Pod.collectors`."""
        return [GenerationCollector(self)]

    def _step(self, stepped: Stepped) -> None:
        self.report = stepped.report
        if stepped.step is not None:
            self.tokens.prefill_tokens += stepped.step.prefill_tokens
        self.admission.deliver_events(stepped.events)


def _wire_curve(sums: GenerationSums | None) -> GenerationCurveSums | None:
    return None if sums is None else GenerationCurveSums(epoch=sums.epoch, sums=sums.sums)
