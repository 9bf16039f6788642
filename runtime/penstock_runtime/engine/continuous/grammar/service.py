"""The pod's grammars: compiled in processes of their own, shared by equal requests, bounded by what they take.

Lives in the event loop of the HTTP side. A grammar is compiled once, here asked for, and the engine connects to the
process that holds it by its address.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from penstock_runtime.engine.continuous.grammar.server import (
    ForkServerHandle,
    ServerFailed,
    TokenizerUnusable,
    Tokens,
)
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected, GrammarSpec, check_size
from penstock_runtime.engine.continuous.grammar.usage import private_bytes
from penstock_runtime.errors import MemoryFull, NotServing

MAX_WORKERS: Final = 128
MAX_BYTES: Final = 384 * 2**20
"""Of memory that workers do not share, together; what is being compiled comes on top of it."""
MAX_COMPILING: Final = 2
MAX_WAITING: Final = 64
"""Grammars that wait to be compiled."""
WALL_SECONDS: Final = 60.0
"""From its turn to the compiled grammar, however busy the machine is."""
MEASURE_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Worker:
    """One process and the grammar that it holds."""

    number: int
    spec: GrammarSpec
    ready: asyncio.Task[str]
    """Its address, or why there is none."""
    users: int = 0
    process: int | None = None
    bytes: int = 0
    last_used: float = 0.0


class Lease:
    """One request's hold on a compiled grammar: its process stays until the release."""

    def __init__(self, address: str, release: Callable[[], None]) -> None:
        self.address = address
        self.release = release


class GrammarService:
    """Owns the fork server and the book of its workers."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._server: ForkServerHandle | None = None
        self._workers: dict[GrammarSpec, _Worker] = {}
        self._numbers: dict[int, _Worker] = {}
        self._made = 0
        self._waiting = 0
        self._turns = asyncio.Semaphore(MAX_COMPILING)
        self._refusal: str | None = None
        """Why no grammar can be enforced with this tokenizer."""
        self._living: asyncio.Task[None] | None = None
        self._up = asyncio.Event()
        """Set once the first start has come to its end: who asks before waits for it."""

    async def start(self, tokens: Tokens) -> None:
        """Start the fork server, and start it again whenever it ends."""
        await self._launch(tokens)
        self._up.set()
        self._living = asyncio.create_task(self._live(tokens))

    async def close(self) -> None:
        """End the fork server and all workers."""
        if self._living is not None:
            self._living.cancel()
            await asyncio.wait([self._living])
        for held in list(self._workers.values()):
            self._drop(held)
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def lease(self, spec: GrammarSpec) -> Lease:
        """Return a hold on `spec`, compiled before or now; to be released by the caller.

        Raises:
            Unenforceable: it does not compile, or not within the limits.
            MemoryFull: grammars in use leave no room for another.
            NotServing: it could not be tried.
        """
        check_size(spec)
        await self._up.wait()
        held = self._workers.get(spec) or self._admit(spec)
        held.users += 1
        try:
            address = await asyncio.shield(held.ready)
        except asyncio.CancelledError:
            ended, task = held.ready.cancelled(), asyncio.current_task()
            self._release(held)
            if ended and task is not None and not task.cancelling():
                raise NotServing("GrammarsClosed", "this pod is stopping: try again") from None
            raise
        except BaseException:
            self._release(held)
            raise
        return Lease(address, partial(self._release, held))

    def _admit(self, spec: GrammarSpec) -> _Worker:
        if self._refusal is not None:
            raise GrammarRejected(self._refusal)
        if self._server is None:
            raise NotServing("GrammarsRestarting", "grammars are being restarted: try again soon")
        if self._waiting >= MAX_WAITING:
            raise MemoryFull(
                f"{MAX_WAITING} grammars wait to be compiled: try again later",
                retry_after_seconds=1.0,
            )
        self._made += 1
        number = self._made
        held = _Worker(number, spec, asyncio.create_task(self._compile(number, spec)))
        held.ready.add_done_callback(partial(self._compiled, held))
        self._workers[spec] = self._numbers[number] = held
        return held

    async def _compile(self, number: int, spec: GrammarSpec) -> str:
        self._waiting += 1
        try:
            await self._turns.acquire()
        finally:
            self._waiting -= 1
        try:
            self._make_room()
            if self._server is None:
                raise NotServing("GrammarsRestarting", "grammars are being restarted: try again")
            async with asyncio.timeout(WALL_SECONDS):
                address = await self._server.compile(number, spec)
            await self._measure()
            return address
        except TimeoutError:
            raise NotServing(
                "GrammarTimeout",
                f"the grammar was not compiled within {WALL_SECONDS:.0f} s, because this pod is busy: try again",
            ) from None
        except OSError as error:
            raise NotServing("GrammarsBusy", f"the grammar cannot be tried now: {error}") from error
        finally:
            self._turns.release()

    def _compiled(self, held: _Worker, ready: asyncio.Task[str]) -> None:
        """Forget what did not compile; whoever waited for it is told by the task."""
        if ready.cancelled() or ready.exception() is not None:
            self._drop(held)

    def _release(self, held: _Worker) -> None:
        held.users -= 1
        held.last_used = self._now()
        if not held.users and not held.ready.done():
            self._drop(held)  # nobody waits for it any more

    def _drop(self, held: _Worker) -> None:
        """End a worker; the engine ends the requests that still need it."""
        if self._numbers.pop(held.number, None) is None:
            return
        if self._workers.get(held.spec) is held:
            del self._workers[held.spec]
        held.ready.cancel()
        if self._server is not None:
            self._server.end(held.number)

    # -- memory

    def _make_room(self) -> None:
        """Drop idle workers, the least recently used first, until the next one fits.

        Raises:
            MemoryFull: those that are in use take everything.
        """
        while self._processes() >= MAX_WORKERS or self._bytes() >= MAX_BYTES:
            idle = [one for one in self._numbers.values() if not one.users and one.ready.done()]
            if not idle:
                raise MemoryFull(
                    f"the grammars of running requests take all of {MAX_WORKERS} processes or"
                    f" {MAX_BYTES >> 20} MiB: try again later",
                    retry_after_seconds=1.0,
                )
            self._drop(min(idle, key=lambda one: one.last_used))

    def _processes(self) -> int:
        return sum(one.process is not None for one in self._numbers.values())

    def _bytes(self) -> int:
        return sum(one.bytes for one in self._numbers.values())

    async def _measure(self) -> None:
        """Measure all workers, and drop what is too much: idle ones first, then the largest."""
        processes = {number: one.process for number, one in self._numbers.items() if one.process}
        measured = await asyncio.to_thread(
            lambda: {number: private_bytes(process) for number, process in processes.items()}
        )
        for number, size in measured.items():
            if number in self._numbers:
                self._numbers[number].bytes = size
        while self._bytes() > MAX_BYTES:
            last = max(
                (one for one in self._numbers.values() if one.bytes and one.ready.done()),
                key=lambda one: (not one.users, -one.last_used if not one.users else one.bytes),
                default=None,
            )
            if last is None:
                return  # what is being compiled comes on top
            if last.users:
                log.warning("a grammar in use took %d MiB and was ended", last.bytes >> 20)
            self._drop(last)

    # -- the fork server

    async def _launch(self, tokens: Tokens) -> None:
        try:
            self._server = await ForkServerHandle.start(tokens, self._started)
        except TokenizerUnusable as error:
            self._refusal = f"this model's tokenizer does not serve for grammars: {error}"
            log.warning("%s", self._refusal)
        except ServerFailed:
            log.exception("the fork server of grammars did not start; it is started again")

    async def _live(self, tokens: Tokens) -> None:
        """Measure every second; start the fork server again where it has ended."""
        while self._refusal is None:
            await asyncio.sleep(MEASURE_SECONDS)
            if self._server is not None and self._server.ended:
                log.error("the fork server of grammars has ended and is started again")
                for held in list(self._numbers.values()):
                    if held.ready.done():
                        self._drop(held)
                await self._server.close()
                self._server = None
            if self._server is None:
                await self._launch(tokens)
            elif self._numbers:
                await self._measure()

    def _started(self, number: int, process: int | None) -> None:
        """Note a worker's process, or that it has ended."""
        held = self._numbers.get(number)
        if held is None:
            return
        held.process = process
        if process is None and held.ready.done():
            log.info("a grammar's process has ended: a limit was exceeded")
            self._drop(held)
