"""The `thread` placement of generation: engine and step in threads of this process."""

import asyncio
import threading
import time
from collections.abc import Callable

from penstock_runtime.engine.continuous.interfaces import StepExecutor
from penstock_runtime.engine.continuous.limits import GenerationInfo, GenerationLimits
from penstock_runtime.engine.continuous.loop import LoopPorts, serve
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.link.base import Heartbeat, ModelLoadFailed
from penstock_runtime.engine.link.generation_setup import open_engine
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.inbox import ThreadInbox
from penstock_runtime.engine.link.thread import CLOSE_SECONDS
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import describe


class GenerationThreadLink:
    """A `GenerationLink` whose engine loads and runs its model in threads of its own."""

    def __init__(
        self,
        load: Callable[[], StepExecutor],
        limits: GenerationLimits,
        *,
        depth: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._limits = limits
        self._depth = depth
        self._clock = clock
        self._inbox = ThreadInbox(clock)
        self._pulse = ThreadHeartbeat(clock)
        self._thread = threading.Thread(target=self._live, name="penstock-generation", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._ready: asyncio.Future[GenerationInfo]
        self._deliver: Callable[[Stepped | EngineDied], None]

    async def start(self, deliver: Callable[[Stepped | EngineDied], None]) -> GenerationInfo:
        """As `GenerationLink.start`."""
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()
        self._deliver = deliver
        self._thread.start()
        return await self._ready

    def send(self, message: ToGeneration) -> None:
        """As `GenerationLink.send`."""
        self._inbox.send(message)

    def heartbeat(self) -> Heartbeat:
        """As `GenerationLink.heartbeat`."""
        return self._pulse.last

    def kill(self) -> None:
        """As `GenerationLink.kill`."""
        self._inbox.close()

    async def close(self) -> None:
        """As `GenerationLink.close`."""
        self._inbox.close()
        if self._thread.ident is not None and self._ready.done():  # nobody waits for a load
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # -- the engine's thread

    def _live(self) -> None:
        try:
            opened = open_engine(self._load, self._limits, self._depth)
        except ModelLoadFailed as error:
            self._in_loop(self._refuse, error)
            return
        except BaseException as error:  # noqa: BLE001  whatever a loader raises is a model that did not load
            self._in_loop(
                self._refuse, ModelLoadFailed(f"the model did not load: {describe(error)}")
            )
            return
        self._post(Stepped((), None, opened.engine.report()))
        self._in_loop(self._accept, opened.info)
        outside = LoopPorts(self._post, self._pulse, self._clock)
        try:
            serve(opened.engine, opened.runner, self._inbox, outside)
        except BaseException as error:  # noqa: BLE001  whatever ends the engine, the HTTP side must know
            self._inbox.close()
            self._post(EngineDied(describe(error)))

    def _post(self, message: Stepped | EngineDied) -> None:
        self._in_loop(self._deliver, message)

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Call in the event loop; a loop that has closed has nobody left to tell."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            self._inbox.close()

    def _accept(self, info: GenerationInfo) -> None:
        if not self._ready.done():
            self._ready.set_result(info)

    def _refuse(self, error: ModelLoadFailed) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
