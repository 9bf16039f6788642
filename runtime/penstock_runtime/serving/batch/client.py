"""`BatchClient`: the HTTP side of a batch engine."""

import asyncio
import time
from collections.abc import Callable
from typing import TypeGuard

from typing_extensions import override

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.batch import BatchLink
from penstock_runtime.engine.messages import EngineDied, Settled
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.serving.batch.admission import BatchAdmission
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.engine_client import EngineClient
from penstock_runtime.serving.health import Health
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.pod import Pod
from penstock_runtime.serving.state import ServingState
from penstock_runtime.serving.tokenizer_pool import tokenizing


class BatchClient(EngineClient):
    """Owns the link, the admission and the tokenizers of a batch model."""

    admission: BatchAdmission
    link: BatchLink

    def __init__(
        self, config: RuntimeConfig, link: BatchLink, state: ServingState, admission: BatchAdmission
    ) -> None:
        self.link = link
        self.admission = admission
        self._config = config
        self._state = state

    @override
    async def load(self, deliver: Callable[[Settled | EngineDied], None]) -> ModelInfo:
        loading = asyncio.ensure_future(self.link.start(deliver))
        try:
            self.texts = await asyncio.to_thread(tokenizing, self._config)
            if self.texts is not None:
                self.link.set_more_coming_hint(self.texts.busy)
        finally:
            model = await loading
        return model

    @override
    def record(self, report: Settled) -> None:
        self._state.live.deliver(report.report)
        if report.batch is not None:
            self._state.counters.count_batch(report.batch)
        self.admission.record_started(report.began)
        self.admission.deliver(report.ends)

    @override
    def context_tokens(self) -> int | None:
        return None if self.texts is None else self.texts.max_tokens


BatchPod = Pod[BatchAdmission, BatchClient]


def batch_pod(
    config: RuntimeConfig,
    link: BatchLink,
    first: LimitsUpdate,
    now: Callable[[], float] = time.monotonic,
) -> BatchPod:
    """Return the pod of a batch engine; the model is not loaded yet."""
    state = ServingState(LiveLimits(first, link.send), Health(), Counters(), now)
    admission = BatchAdmission(link.send, state, config.queue.max_held_bytes)
    return Pod(config, state, admission, BatchClient(config, link, state, admission))


def serves_batches(pod: Pod) -> TypeGuard[BatchPod]:
    """Return whether a batch engine is behind `pod`."""
    return isinstance(pod.engine, BatchClient)
