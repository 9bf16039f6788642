"""One pod's HTTP side as a whole: its parts, and how the engine's messages reach them."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from prometheus_client.registry import Collector

from penstock_api.limits import Envelope, LimitsUpdate, State
from penstock_runtime.config import RuntimeConfig
from penstock_runtime.engine.link.batch import BatchLink
from penstock_runtime.engine.messages import EngineDied, FromEngine
from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.errors import UnknownModel, shown
from penstock_runtime.request import Failed
from penstock_runtime.serving.admission import Admission
from penstock_runtime.serving.auth.api_keys import ApiKeyRing
from penstock_runtime.serving.auth.callers import Callers
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.serving.limits import ENVELOPE, LiveLimits
from penstock_runtime.serving.liveness import EngineWatch
from penstock_runtime.serving.tokenizer_pool import TokenizerPool, tokenizing
from penstock_runtime.sources.fetch import fetched
from penstock_runtime.sources.progress import DownloadProgress

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 1.0
"""How often the engine is looked at."""
STUCK_RETRY_SECONDS: Final = 1.0
"""What clients of a stuck engine are told to wait: another pod serves them."""


class Pod:
    """Owns nothing of a request itself; hands what the engine says to the owners."""

    def __init__(
        self,
        config: RuntimeConfig,
        link: BatchLink,
        first_limits: LimitsUpdate,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self.link = link
        self.now = now
        self.began = int(time.time())
        """What `/v1/models` calls the model's creation."""
        self.health = Health()
        self.counters = Counters()
        self.live = LiveLimits(first_limits, link.send)
        self.admission = Admission(
            link.send,
            self.live,
            self.health,
            self.counters,
            now=now,
            most_bytes=config.queue.max_held_bytes,
        )
        ring = ApiKeyRing(config.auth.api_keys_file) if config.auth.api_keys_file else None
        self.callers = Callers(ring, config.auth.trusted_proxies, now)
        self.model: ModelInfo | None = None
        self.texts: TokenizerPool | None = None
        """Of a pool whose model reads texts."""
        self.meter = DownloadProgress()
        """How far the load has come."""
        self.died = asyncio.Event()

    @property
    def has_fast_path(self) -> bool:
        """Whether plain requests may pass beside aiohttp: where nobody is asked who he is."""
        return self.callers.open

    async def load(self) -> None:
        """Fetch the model where it is to be fetched, load and warm it, then serve.

        Raises:
            ModelLoadFailed: with a one-line reason.
        """
        await fetched(self.config, self.meter)
        await self._load()

    async def _load(self) -> None:
        """Start the engine on files that are there."""
        loading = asyncio.ensure_future(self.link.start(self.deliver))
        try:
            self.texts = await asyncio.to_thread(tokenizing, self.config)
            if self.texts is not None:
                self.link.set_more_coming_hint(self.texts.busy)
        finally:
            self.model = await loading
        if self.health.stage is Stage.LOADING:
            self.health.stage = Stage.SERVING
        log.info(
            "the model is warm", extra={"model": self.model.name, "backend": self.model.backend}
        )

    async def close(self) -> None:
        """End the engine, which serves what it holds."""
        await self.link.close()

    def deliver(self, message: FromEngine) -> None:
        """Take one message of the engine, in the event loop."""
        if isinstance(message, EngineDied):
            self._bury(message.reason)
            return
        self.live.deliver(message.report)
        if message.batch is not None:
            self.counters.count_batch(message.batch)
        self.admission.note_begun(message.began)
        self.admission.deliver(message.ends)

    async def watch_engine(self) -> None:
        """Look at a loaded engine until it is stuck, then end what it holds and kill it: the process exits."""
        watch = EngineWatch(self.config.engine.stuck_seconds)
        while not self.died.is_set():
            delay_seconds = self.live.accepted.max_queue_delay_milliseconds / 1000
            reason = watch.look(
                self.link.heartbeat(), self.admission.owing_since(), delay_seconds, self.now()
            )
            if reason is not None:
                self.link.kill()
                self._bury(f"it is stuck: {reason}", STUCK_RETRY_SECONDS)
            await asyncio.sleep(LOOK_SECONDS)

    def state(self, model: ModelInfo) -> State:
        """Return the answer to `GET /control/v1/state`."""
        return self.live.state(self.admission.load(), model, self.envelope())

    def envelope(self) -> Envelope:
        """Return what limits this pod can accept."""
        return ENVELOPE

    @property
    def context_tokens(self) -> int | None:
        """The most tokens of one text; None where the model reads none, or is not there yet."""
        return None if self.texts is None else self.texts.max_tokens

    def check_model(self, asked: str | None) -> None:
        """Return if `asked` is the model of this pod, or nothing.

        Raises:
            UnknownModel: it is another.
        """
        held = self.config.model_name
        if asked is not None and asked != held:
            raise UnknownModel(
                f"model {shown(asked, 140)} is not served here: this pod serves {held!r}",
                field="model",
            )

    def cache_usage(self) -> float:
        """Return the share of the KV cache that is in use; a one-shot model has none."""
        return 0.0

    def collectors(self) -> list[Collector]:
        """Return what else is scraped from this pod."""
        return []

    def model_on_cuda(self) -> bool:
        """Return whether NVML's figures are about what this pod computes on."""
        return self.model is not None and self.model.backend.startswith("cuda")

    def busy_seconds(self) -> float:
        """Return how long the engine has computed in all, the running step included."""
        settled = self.live.report.busy_seconds if self.live.report else 0.0
        heartbeat = self.link.heartbeat()
        return settled + (max(self.now() - heartbeat.last_step, 0.0) if heartbeat.busy else 0.0)

    def _bury(self, reason: str, retry_after_seconds: float | None = None) -> None:
        log.error("the engine has died: %s", reason)
        self.health.die(reason)
        self.admission.fail_all(Failed(f"the engine has died: {reason}", retry_after_seconds))
        self.died.set()
