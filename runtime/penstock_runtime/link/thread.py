"""The `thread` placement: the engine in a thread of this process (one-shot models with at most one core)."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from penstock_api.limits import LimitsUpdate
from penstock_runtime.engine.engine import Engine
from penstock_runtime.engine.loop import serve
from penstock_runtime.engine.warm_up import warm_up
from penstock_runtime.link.base import Heartbeat, ModelLoadFailed
from penstock_runtime.link.messages import EngineDied, FromEngine, Settled, ToEngine
from penstock_runtime.models.base import Model, ModelInfo, describe

CLOSE_SECONDS = 30.0
"""How long `close` waits for a running batch; the thread is a daemon, so a stuck one cannot hold the process."""


class ThreadInbox:
    """Messages on their way in: a deque under a condition that neither side holds while it works."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._messages: deque[ToEngine] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def send(self, message: ToEngine) -> None:
        """Add a message; ignored once closed."""
        with self._changed:
            if not self._closed:
                self._messages.append(message)
                self._changed.notify()

    def close(self) -> None:
        """Take no more; what was sent before is still received."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def receive(self, until: float | None) -> Sequence[ToEngine] | None:
        """As `engine.loop.Inbox`."""
        with self._changed:
            while not self._messages and not self._closed:
                left = None if until is None else until - self._clock()
                if left is not None and left <= 0.0:
                    return ()
                self._changed.wait(left)
            if not self._messages:
                return None
            messages, self._messages = self._messages, deque()
            return messages


class ThreadPulse:
    """The engine's heartbeat: one reference, replaced whole, so that readers need no lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._predicted_seconds = 0.0
        self.last = Heartbeat(clock(), busy=False, predicted_seconds=0.0)

    def begin(self, predicted_seconds: float) -> None:
        """As `engine.loop.Pulse`."""
        self._predicted_seconds = predicted_seconds
        self.beat()

    def beat(self) -> None:
        """As `engine.loop.Pulse`."""
        self.last = Heartbeat(self._clock(), busy=True, predicted_seconds=self._predicted_seconds)

    def end(self) -> None:
        """As `engine.loop.Pulse`."""
        self.last = Heartbeat(self._clock(), busy=False, predicted_seconds=0.0)


class ThreadLink:
    """An `EngineLink` whose engine loads and runs its model in one thread of its own."""

    def __init__(
        self,
        load: Callable[[], Model],
        limits: LimitsUpdate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._load = load
        self._limits = limits
        self._clock = clock
        self._inbox = ThreadInbox(clock)
        self._pulse = ThreadPulse(clock)
        self._thread = threading.Thread(target=self._live, name="penstock-engine", daemon=True)
        self._loop: asyncio.AbstractEventLoop
        self._ready: asyncio.Future[ModelInfo]
        """Done once the model serves or has failed to load."""
        self._deliver: Callable[[FromEngine], None]

    async def start(self, deliver: Callable[[FromEngine], None]) -> ModelInfo:
        """As `EngineLink.start`."""
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()
        self._deliver = deliver
        self._thread.start()
        return await self._ready

    def send(self, message: ToEngine) -> None:
        """As `EngineLink.send`."""
        self._inbox.send(message)

    def heartbeat(self) -> Heartbeat:
        """As `EngineLink.heartbeat`."""
        return self._pulse.last

    async def close(self) -> None:
        """As `EngineLink.close`."""
        self._inbox.close()
        if self._thread.ident is not None and self._ready.done():  # nobody waits for a load
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # -- the engine's thread

    def _live(self) -> None:
        try:
            model, engine = self._prepare()
        except ModelLoadFailed as error:
            self._in_loop(self._refuse, error)
            return
        except BaseException as error:  # noqa: BLE001  a model's code may even call sys.exit
            self._in_loop(
                self._refuse, ModelLoadFailed(f"the model did not load: {describe(error)}")
            )
            return
        self._post(Settled((), None, engine.report()))
        self._in_loop(self._accept, model.info)
        try:
            serve(engine, self._inbox, self._post, self._pulse, self._clock)
        except BaseException as error:  # noqa: BLE001  whatever ends the engine, the HTTP side must know
            self._inbox.close()
            self._post(EngineDied(describe(error)))

    def _prepare(self) -> tuple[Model, Engine]:
        model = self._load()
        warmed = warm_up(model, self._clock)
        return model, Engine(model, self._limits, warmed.bound_rows, warmed.curve)

    def _post(self, message: FromEngine) -> None:
        self._in_loop(self._deliver, message)

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Call in the event loop; a loop that has closed has nobody left to tell."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            self._inbox.close()

    def _accept(self, info: ModelInfo) -> None:
        if not self._ready.done():
            self._ready.set_result(info)

    def _refuse(self, error: ModelLoadFailed) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
