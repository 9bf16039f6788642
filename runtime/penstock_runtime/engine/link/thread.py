"""The `thread` placement: the engine's book in the event loop, its batches in a thread of this process.

The engine's book-keeping takes microseconds and belongs to the loop, so no lock guards it and a request
is waiting the moment it is sent. Only running a batch blocks, so only that is handed to the thread. Handing
over costs two switches of threads that both want the interpreter: a batch on a CPU that is predicted to be
shorter than that runs in the loop itself, as long as the predictions hold.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue

from penstock_api.limits import LimitsUpdate
from penstock_runtime.engine.dynamic.batch_former import Batch, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.dynamic.warm_up import WarmUp, warm_up
from penstock_runtime.engine.link.base import Heartbeat, ModelLoadFailed
from penstock_runtime.engine.link.cpu_priority import BatchSchedPolicy
from penstock_runtime.engine.link.heartbeat import ThreadHeartbeat
from penstock_runtime.engine.link.inline_policy import InlinePolicy
from penstock_runtime.engine.messages import EngineDied, FromEngine, SetLimits, Submit, ToEngine
from penstock_runtime.engine.model import Model, ModelInfo, describe
from penstock_runtime.request import Request

COMPANY_SHARE = 0.1
"""Of a batch's time: for so long after it the next one is held for texts that are being tokenised."""
CLOSE_SECONDS = 30.0
"""How long `close` waits for a running batch; the thread is a daemon, so a stuck one cannot hold the process."""


class ThreadLink:
    """An `EngineLink` whose model loads and runs in one thread of its own, brief batches aside."""

    def __init__(
        self,
        load: Callable[[], Model],
        limits: LimitsUpdate,
        clock: Callable[[], float] = time.monotonic,
        brief_seconds: float = 0.0,
    ) -> None:
        self._load = load
        self._limits = limits
        self._clock = clock
        self._brevity = InlinePolicy(brief_seconds) if brief_seconds > 0.0 else None
        """None: every batch is the thread's."""
        self._deference = BatchSchedPolicy()
        self._pulse = ThreadHeartbeat(clock)
        self._thread = threading.Thread(target=self._live, name="penstock-engine", daemon=True)
        self._work: SimpleQueue[Batch | None] = SimpleQueue()
        """What the thread is to run; None ends it."""
        self._inbox: list[ToEngine] = []
        self._engine: BatchEngine | None = None
        self._running = False
        """Whether the thread holds a batch."""
        self._awake = False
        """Whether a turn is scheduled."""
        self._coming: Callable[[], bool] | None = None
        """None: what is about to be sent is never known."""
        self._company_until = 0.0
        """When a batch is held no longer for what is coming."""
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._loop: asyncio.AbstractEventLoop
        self._ready: asyncio.Future[ModelInfo]
        """Done once the model serves or has failed to load."""
        self._idle: asyncio.Future[None] | None = None
        """Of a `close` that waits for the running batch."""
        self._deliver: Callable[[FromEngine], None]

    async def start(self, deliver: Callable[[FromEngine], None]) -> ModelInfo:
        """As `EngineLink.start`."""
        self._loop = asyncio.get_running_loop()
        self._ready = self._loop.create_future()
        self._deliver = deliver
        self._thread.start()
        return await self._ready

    def send(self, message: ToEngine) -> None:
        """As `EngineLink.send`: what is sent in one round of the loop is taken in together."""
        if not self._closed:
            self._inbox.append(message)
            if not self._awake:
                self._wake()

    def set_more_coming_hint(self, coming: Callable[[], bool]) -> None:
        """As `EngineLink.set_more_coming_hint`."""
        self._coming = coming

    def heartbeat(self) -> Heartbeat:
        """As `EngineLink.heartbeat`; between batches the engine is this loop and a thread that waits."""
        last = self._pulse.last
        if last.busy or not self._thread.is_alive():
            return last
        return replace(last, alive_at=self._clock())

    def kill(self) -> None:
        """As `EngineLink.kill`."""
        self._engine, self._closed = None, True

    async def close(self) -> None:
        """As `EngineLink.close`."""
        if self._closed:
            return
        self._closed = True
        if self._running:
            self._idle = self._loop.create_future()
            await asyncio.wait([self._idle], timeout=CLOSE_SECONDS)
        if self._engine is not None:
            self._take_in(self._engine)
            self._engine.fail_all("the engine was closed", retry_after_seconds=1.0)
            self._tell(self._engine)
        self._deference.end()
        self._work.put(None)
        if self._thread.ident is not None and self._ready.done():  # nobody waits for a load
            await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    # -- in the loop

    def _wake(self) -> None:
        if not self._awake and self._engine is not None:
            self._awake = True
            self._loop.call_soon(self._step)

    def _step(self) -> None:
        self._awake = False
        if self._engine is None:  # it died, or was closed, since this was scheduled
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            self._turn(self._engine)
        except BaseException as error:  # noqa: BLE001  a model may even call sys.exit
            self._die(describe(error))

    def _turn(self, engine: BatchEngine) -> None:
        """Take messages in; if the model is free, form the next batch and run it, or hand it over."""
        self._take_in(engine)
        if self._running or self._closed:
            self._expire_meanwhile(engine)
            self._tell(engine)
            return
        if self._company_comes(engine):
            self._wake_at(self._company_until)
            self._tell(engine)
            return
        placement = engine.plan(self._clock())
        if isinstance(placement, Batch):
            if self._is_brief(engine, placement):
                self._run_here(engine, placement)
            else:
                self._running = True
                seconds = engine.predicted_seconds(placement)
                self._deference.before(seconds)
                self._pulse.begin(seconds)
                self._work.put(placement)
                self._expire_meanwhile(engine)
        elif isinstance(placement, WaitUntil):
            self._wake_at(placement.time)
        self._tell(engine)

    def _company_comes(self, engine: BatchEngine) -> bool:
        """Return whether to hold what waits: the core that would run it is busy bringing its company."""
        return (
            self._coming is not None
            and self._clock() < self._company_until
            and self._coming()
            and engine.may_hold_for_company()
        )

    def _expire_meanwhile(self, engine: BatchEngine) -> None:
        """While a batch runs, tell whose deadline passes without waiting for its end."""
        engine.expire(self._clock())
        expiry = engine.next_expiry()
        if expiry is not None:
            self._wake_at(expiry)

    def _wake_at(self, time: float) -> None:
        self._timer = self._loop.call_later(max(0.0, time - self._clock()), self._wake)

    def _take_in(self, engine: BatchEngine) -> None:
        """Hand messages to the engine; new limits only between batches, which is when they are obeyed."""
        messages, self._inbox = self._inbox, []
        now = self._clock()
        requests: list[Request] = []
        for message in messages:
            if type(message) is Submit:
                requests += message.requests
                continue
            engine.admit(requests, now)
            requests = []
            if self._running and isinstance(message, SetLimits):
                self._inbox.append(message)
            else:
                engine.take(message, now)
        engine.admit(requests, now)

    def _tell(self, engine: BatchEngine) -> None:
        settled = engine.settled()
        if settled is not None:
            self._deliver(settled)

    def _is_brief(self, engine: BatchEngine, batch: Batch) -> bool:
        return self._brevity is not None and self._brevity.should_inline(
            batch.rows, engine.predicted_seconds(batch), self._clock()
        )

    def _run_here(self, engine: BatchEngine, batch: Batch) -> None:
        ran = engine.run(batch, self._clock, _nobody_looks)
        self._pulse.end()
        engine.complete(ran)
        if self._brevity is not None:
            self._brevity.record(ran.runs)
        if engine.waiting:
            self._wake()

    def _accept(self, model: Model, warmed: WarmUp) -> None:
        if model.info.has_free_dimensions or model.info.backend != "cpu":
            self._brevity = None  # rows alone do not tell its time, or waiting for it blocks
        self._engine = BatchEngine(model, self._limits, warmed.bound_rows, warmed.curve)
        self._tell(self._engine)
        self._wake()
        if not self._ready.done():
            self._ready.set_result(model.info)

    def _refuse(self, error: ModelLoadFailed) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)

    def _settle(self, ran: BatchResult, cpu_seconds: float) -> None:
        self._running = False
        self._pulse.end()
        if self._brevity is not None:
            self._brevity.record_offloaded(ran.runs, cpu_seconds)
        if self._engine is not None:
            self._engine.complete(ran)
            if self._coming is None:
                self._step()
            else:
                self._company_until = self._clock() + COMPANY_SHARE * ran.seconds
                self._tell(self._engine)
                self._step_after_reading()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _step_after_reading(self) -> None:
        """Take a turn once the loop has read what lies in the sockets: those just told ask again, and share a batch."""
        if not self._awake:
            self._awake = True
            self._loop.call_soon(self._loop.call_soon, self._step)

    def _die(self, reason: str) -> None:
        self._running, self._engine, self._closed = False, None, True
        self._pulse.end()
        self._work.put(None)
        self._deliver(EngineDied(reason))
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    # -- in the thread

    def _live(self) -> None:
        try:
            model = self._load()
            warmed = warm_up(model, self._clock)
        except ModelLoadFailed as error:
            self._in_loop(self._refuse, error)
            return
        except BaseException as error:  # noqa: BLE001  a model's code may even call sys.exit
            refusal = ModelLoadFailed(f"the model did not load: {describe(error)}")
            self._in_loop(self._refuse, refusal)
            return
        self._in_loop(self._accept, model, warmed)
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001  whatever ends the engine, the HTTP side must know
            self._in_loop(self._die, describe(error))

    def _serve(self) -> None:
        while (batch := self._work.get()) is not None:
            if self._engine is not None:
                self._run_there(self._engine, batch)
            del batch  # a thread that waits keeps nobody's tensors

    def _run_there(self, engine: BatchEngine, batch: Batch) -> None:
        began = time.thread_time()
        ran = engine.run(batch, self._clock, self._pulse.tick)
        self._in_loop(self._settle, ran, time.thread_time() - began)

    def _in_loop(self, call: Callable[..., None], *arguments: object) -> None:
        """Call in the event loop; a loop that has closed has nobody left to tell."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            self._closed = True


def _nobody_looks() -> None:
    """Beat for a batch in the loop: while it runs, nobody there can ask for the pulse."""
