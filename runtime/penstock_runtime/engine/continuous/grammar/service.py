"""The grammar service: compiles grammars in bounded worker processes and shares them between equal requests.

It runs in the event loop of the HTTP side. A grammar is compiled once; the engine connects to its worker by address.
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
    GrammarVocabulary,
    TokenizerUnusable,
)
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected, GrammarSpec, check_size
from penstock_runtime.engine.continuous.grammar.usage import private_bytes
from penstock_runtime.errors import MemoryFull, NotServing

MAX_WORKERS: Final = 128
MAX_BYTES: Final = 384 * 2**20
"""Private memory of all workers together; running compilations are additional."""
MAX_COMPILING: Final = 2
MAX_WAITING: Final = 64
"""Grammars in the compilation queue."""
WALL_SECONDS: Final = 60.0
"""Wall-clock limit of a compilation, which matters on a busy machine."""
MEASURE_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Worker:
    """One worker process and its grammar."""

    number: int
    spec: GrammarSpec
    ready: asyncio.Task[str]
    """Resolves to the worker's address, or raises."""
    server: ForkServerHandle | None = None
    """The fork server that runs it, from its compilation on."""
    users: int = 0
    """Leases."""
    process: int | None = None
    """Process id, while it runs."""
    bytes: int = 0
    """Private memory at the last measurement."""
    last_used: float = 0.0

    @property
    def compiled(self) -> bool:
        return self.ready.done()


class Lease:
    """One request's use of a compiled grammar; the worker is kept until `release` is called."""

    def __init__(self, address: str, release: Callable[[], None]) -> None:
        self.address = address
        self.release = release


class GrammarService:
    """Owns the fork server and its workers."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._server: ForkServerHandle | None = None
        self._workers: dict[GrammarSpec, _Worker] = {}
        self._numbers: dict[int, _Worker] = {}
        self._last_number = 0
        self._turns = asyncio.Semaphore(MAX_COMPILING)
        self._rejection: str | None = None
        """Why this tokenizer cannot enforce grammars, or None."""
        self._supervisor: asyncio.Task[None] | None = None
        self._first_start_done = asyncio.Event()
        """Set when the first start has succeeded or failed; leases wait for it."""

    def start(self, vocabulary: GrammarVocabulary) -> None:
        """Start the fork server in the background, and restart it whenever it ends."""
        self._supervisor = asyncio.create_task(self._supervise(vocabulary))

    async def close(self) -> None:
        """End the fork server and all workers."""
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait([self._supervisor])
        for worker in list(self._numbers.values()):
            self._drop(worker)
        if self._server is not None:
            await self._server.close()
            self._server = None

    async def lease(self, spec: GrammarSpec) -> Lease:
        """Return a lease on the grammar of `spec`, compiling it on first use; the caller must release it.

        Raises:
            GrammarRejected: it does not compile, or not within the limits.
            MemoryFull: the grammars in use leave no capacity for another.
            NotServing: it cannot be compiled now.
        """
        check_size(spec)
        await self._first_start_done.wait()
        worker = self._workers.get(spec) or self._admit(spec)
        worker.users += 1
        try:
            address = await asyncio.shield(worker.ready)
        except asyncio.CancelledError:
            ended, task = worker.ready.cancelled(), asyncio.current_task()
            self._release(worker)
            if ended and task is not None and not task.cancelling():
                raise NotServing("GrammarsClosed", "this pod is terminating: retry") from None
            raise
        except BaseException:
            self._release(worker)
            del worker  # a cycle: the traceback of its task's exception has this frame
            raise
        return Lease(address, partial(self._release, worker))

    def _admit(self, spec: GrammarSpec) -> _Worker:
        if self._rejection is not None:
            raise GrammarRejected(self._rejection)
        if self._server is None:
            raise NotServing(
                "GrammarsRestarting", "the grammar compiler is restarting: retry shortly"
            )
        queued = sum(not worker.ready.done() for worker in self._workers.values())
        if queued >= MAX_COMPILING + MAX_WAITING:
            raise MemoryFull(
                f"{MAX_WAITING} grammars are queued for compilation: try again later",
                retry_after_seconds=1.0,
            )
        self._last_number += 1
        number = self._last_number
        worker = _Worker(number, spec, asyncio.create_task(self._compile(number, spec)))
        worker.ready.add_done_callback(partial(self._compiled, worker))
        self._workers[spec] = self._numbers[number] = worker
        return worker

    async def _compile(self, number: int, spec: GrammarSpec) -> str:
        await self._turns.acquire()
        try:
            self._ensure_capacity()
            if self._server is None:
                raise NotServing(
                    "GrammarsRestarting", "the grammar compiler is restarting: retry shortly"
                )
            server = self._numbers[number].server = self._server
            async with asyncio.timeout(WALL_SECONDS):
                address = await server.compile(number, spec)
            await self._measure()
            return address
        except TimeoutError:
            raise NotServing(
                "GrammarTimeout",
                f"the grammar was not compiled within {WALL_SECONDS:.0f} s, because this pod is busy: try again",
            ) from None
        except (OSError, RuntimeError) as error:  # as at the limit of processes, for a thread too
            raise NotServing(
                "GrammarsBusy", f"the grammar cannot be compiled now: {error}"
            ) from error
        finally:
            self._turns.release()

    def _compiled(self, worker: _Worker, ready: asyncio.Task[str]) -> None:
        """Drop a worker whose compilation failed; its task raises the error to the leases that wait."""
        if ready.cancelled() or ready.exception() is not None:
            self._drop(worker)

    def _release(self, worker: _Worker) -> None:
        worker.users -= 1
        worker.last_used = self._now()
        shared = self._workers.get(worker.spec) is worker
        if not worker.users and not (worker.compiled and shared):
            self._drop(worker)  # no request waits for the compilation, or finds it

    def _drop(self, worker: _Worker) -> None:
        """End a worker; the engine fails the requests that still use it."""
        if self._numbers.pop(worker.number, None) is None:
            return
        if self._workers.get(worker.spec) is worker:
            del self._workers[worker.spec]
        worker.ready.cancel()
        if worker.server is not None:
            worker.server.end(worker.number)

    def _orphan(self, worker: _Worker) -> None:
        """Drop an idle worker of a fork server that has exited; no further request shares one in use."""
        if not worker.users:
            self._drop(worker)
        elif self._workers.get(worker.spec) is worker:
            del self._workers[worker.spec]

    # -- memory

    def _ensure_capacity(self) -> None:
        """Drop idle workers, the least recently used first, until another one fits.

        Raises:
            MemoryFull: the workers in use take all capacity.
        """
        while self._processes() >= MAX_WORKERS or self._bytes() >= MAX_BYTES:
            idle = [
                worker for worker in self._numbers.values() if not worker.users and worker.compiled
            ]
            if not idle:
                raise MemoryFull(
                    f"the grammars of running requests use all {MAX_WORKERS} processes or"
                    f" {MAX_BYTES >> 20} MiB: try again later",
                    retry_after_seconds=1.0,
                )
            self._drop(min(idle, key=lambda worker: worker.last_used))

    def _processes(self) -> int:
        return sum(worker.process is not None for worker in self._numbers.values())

    def _bytes(self) -> int:
        return sum(worker.bytes for worker in self._numbers.values())

    async def _measure(self) -> None:
        """Measure all workers and drop the excess: idle ones first, then the largest."""
        processes = {
            number: worker.process for number, worker in self._numbers.items() if worker.process
        }
        measured = await asyncio.to_thread(
            lambda: {number: private_bytes(process) for number, process in processes.items()}
        )
        for number, size in measured.items():
            if number in self._numbers:
                self._numbers[number].bytes = size
        while self._bytes() > MAX_BYTES:
            measurable = [
                worker for worker in self._numbers.values() if worker.bytes and worker.compiled
            ]
            if not measurable:
                return  # compilations in progress do not count
            excess = max(measurable, key=_drop_order)
            if excess.users:
                log.warning(
                    "grammar workers exceed %d MiB: killing one in use, which takes %d MiB",
                    MAX_BYTES >> 20,
                    excess.bytes >> 20,
                )
            self._drop(excess)

    # -- the fork server

    async def _launch(self, vocabulary: GrammarVocabulary) -> None:
        try:
            self._server = await ForkServerHandle.start(vocabulary, self._record_process)
        except TokenizerUnusable as error:
            self._rejection = f"this model's tokenizer cannot be used for grammars: {error}"
            log.warning("%s", self._rejection)

    async def _supervise(self, vocabulary: GrammarVocabulary) -> None:
        """Supervise the fork server and measure the workers every second, whatever fails."""
        while self._rejection is None:
            try:
                await self._supervise_once(vocabulary)
            except Exception:
                log.exception("the grammar fork server failed; restarting it if it does not run")
            self._first_start_done.set()
            await asyncio.sleep(MEASURE_SECONDS)

    async def _supervise_once(self, vocabulary: GrammarVocabulary) -> None:
        """Start the fork server if it does not run, or measure its workers."""
        if self._server is not None and self._server.ended:
            log.error("the grammar fork server has exited; restarting it")
            for worker in list(self._numbers.values()):
                if worker.server is self._server:
                    self._orphan(worker)
            await self._server.close()
            self._server = None
        if self._server is None:
            await self._launch(vocabulary)
        elif self._numbers:
            await self._measure()

    def _record_process(self, number: int, process: int | None) -> None:
        """Record the process of a worker, or drop the worker when its process has exited."""
        worker = self._numbers.get(number)
        if worker is None:
            return
        worker.process = process
        if process is None and worker.compiled:
            log.info("a grammar worker was killed for exceeding a limit")
            self._drop(worker)


def _drop_order(worker: _Worker) -> tuple[bool, float]:
    """Return the sort key of excess workers; the largest key is dropped first."""
    return (not worker.users, worker.bytes if worker.users else -worker.last_used)
