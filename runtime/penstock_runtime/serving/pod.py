"""`Pod`: the HTTP side of one pod, around one kind of engine."""

import asyncio
import logging
import time
from typing import Any, Final, Generic

from prometheus_client.registry import Collector
from typing_extensions import TypeVar

from penstock_api import names
from penstock_api.api_keys import ApiKeyRing
from penstock_api.pod_contract import Envelope, State
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import UnknownModel, shown
from penstock_runtime.request import Failed, RequestOutcome
from penstock_runtime.serving.admission.base import Admission
from penstock_runtime.serving.auth.callers import Callers
from penstock_runtime.serving.engine_client import EngineClient
from penstock_runtime.serving.health import EngineWatch, Stage
from penstock_runtime.serving.state import ServingState
from penstock_runtime.serving.tokenizer_pool import TokenizerPool
from penstock_runtime.sources.fetch import fetched
from penstock_runtime.sources.progress import DownloadProgress

log = logging.getLogger(__name__)

WATCH_SECONDS: Final = 1.0
"""Interval of the checks for a stuck engine."""
STUCK_RETRY_SECONDS: Final = 1.0
"""`Retry-After` of requests to a stuck engine: another pod serves them."""

AdmissionT_co = TypeVar("AdmissionT_co", bound=Admission, covariant=True, default=Admission)
ClientT_co = TypeVar("ClientT_co", bound=EngineClient, covariant=True, default=EngineClient)


class Pod(Generic[AdmissionT_co, ClientT_co]):
    """Connects configuration, health, limits and callers with the client of an engine."""

    def __init__(
        self,
        config: RuntimeConfig,
        state: ServingState,
        admission: AdmissionT_co,
        engine: ClientT_co,
    ) -> None:
        """`admission` is that of `engine`; both share `state`."""
        self.config = config
        self.admission = admission
        self.engine = engine
        self.link = engine.link
        self.now = state.now
        self.began = int(time.time())
        """Creation time of the model in `/v1/models`, in Unix seconds."""
        self.health = state.health
        self.counters = state.counters
        self.live = state.live
        ring = ApiKeyRing(config.auth.api_keys_file) if config.auth.api_keys_file else None
        self.callers = Callers(ring, config.auth.trusted_proxies, self.now)
        self.model: ModelInfo | None = None
        self.texts: TokenizerPool | None = None
        """Tokenizers of a batch model that reads texts, once loaded."""
        self.meter = DownloadProgress()
        """Progress of the download."""
        self.died = asyncio.Event()

    async def load(self) -> None:
        """Fetch the model if its source is remote, load it and warm it up, then serve.

        Raises:
            ModelLoadFailed: with a one-line reason.
        """
        await fetched(self.config, self.meter)
        self.model = await self.engine.load(self.deliver)
        self.texts = self.engine.texts
        if self.health.stage is Stage.LOADING:
            self.health.stage = Stage.SERVING
        log.info(
            "the model is warm", extra={"model": self.model.name, "backend": self.model.backend}
        )
        self.engine.start_helpers()

    async def close(self) -> None:
        """Close the engine, which completes a running batch."""
        await self.engine.close()

    def deliver(self, message: Any) -> None:
        """Deliver a message of the engine, in the event loop."""
        if isinstance(message, EngineDied):
            self._die(message.reason)
        else:
            self.engine.record(message)

    async def watch_engine(self) -> None:
        """Check a loaded engine until it is stuck; then kill it and fail its requests: the process exits."""
        watch = EngineWatch(self.config.engine.stuck_seconds)
        while not self.died.is_set():
            delay_seconds = self.live.accepted.max_queue_delay_milliseconds / 1000
            reason = watch.look(
                self.link.heartbeat(), self.admission.owing_since(), delay_seconds, self.now()
            )
            if reason is not None:
                self.link.kill()
                self._die(f"it is stuck: {reason}", STUCK_RETRY_SECONDS)
            await asyncio.sleep(WATCH_SECONDS)

    def state(self, model: ModelInfo) -> State:
        """Return the response of `GET /control/v1/state`."""
        return self.engine.extend_state(
            self.live.state(self.admission.load(), model, self.envelope())
        )

    def envelope(self) -> Envelope:
        """Return the range of each limit that this pod accepts."""
        return self.engine.envelope()

    @property
    def context_tokens(self) -> int | None:
        """The maximum tokens of one text; None if the model reads no texts, or is not loaded."""
        return self.engine.context_tokens()

    def check_model(self, name: str | None) -> None:
        """Check that a request names the model of this pod, or none.

        Raises:
            UnknownModel: it names another model.
        """
        served = self.config.model_name
        if name is not None and name != served:
            raise UnknownModel(
                f"model {shown(name, 140)} is not served here: this pod serves {served!r}",
                field="model",
            )

    def cache_usage(self) -> float:
        """Return the share of the KV cache in use; 0 without a cache."""
        return self.engine.cache_usage()

    def drains_quietly(self) -> bool:
        """Return whether the pod stops and has turned no request away.

        A deleted pod leaves the endpoints before it turns requests away. One that is stopped without being deleted, as
        under node pressure, stays there until its readiness fails.
        """
        return self.health.stopping and not self.counters.rejected[Stage.DRAINING]

    def collectors(self) -> list[Collector]:
        """Return the collectors of metrics that only this kind of engine has."""
        return list(self.engine.collectors())

    def model_on_cuda(self) -> bool:
        """Return whether NVML reports the device that this pod computes on."""
        return self.model is not None and self.model.backend.startswith("cuda")

    def busy_seconds(self) -> float:
        """Return the engine's total compute time, including the running step."""
        reported = self.live.report.busy_seconds if self.live.report else 0.0
        heartbeat = self.link.heartbeat()
        return reported + (max(self.now() - heartbeat.last_step, 0.0) if heartbeat.busy else 0.0)

    def request_seconds(self) -> float:
        """Return the mean compute time per completed request, in seconds; 0 before the first."""
        completed = self.counters.ended[RequestOutcome.COMPLETED]
        return self.busy_seconds() / completed if completed else 0.0

    def _die(self, reason: str, retry_after_seconds: float | None = None) -> None:
        log.error("the engine has died: %s", reason)
        self.health.die(reason)
        self.admission.fail_all(Failed(f"{names.ENGINE_DIED}: {reason}", retry_after_seconds))
        self.died.set()
