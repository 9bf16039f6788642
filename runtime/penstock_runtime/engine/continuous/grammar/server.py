"""`ForkServerHandle`: controls the grammar fork server: starts and kills workers, and has them compile grammars."""

import asyncio
import json
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Final, Never

from penstock_runtime.engine.continuous.grammar import worker
from penstock_runtime.engine.continuous.grammar.process import (
    FORK,
    NOT_FORKED,
    READY,
    STARTED,
    WORKER_STATE,
)
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected, GrammarSpec
from penstock_runtime.errors import NotServing

START_SECONDS: Final = 120.0
"""Timeout of a start: building the trie of a large vocabulary on a busy core."""
_MEMORY = f"{worker.MEMORY_BYTES >> 20} MiB of memory"
_STACK = f"{worker.STACK_BYTES >> 20} MiB of stack"
_LOST: Final = 1 << 29
"""Exit code recorded for workers whose fork server has exited."""
_REMEDY = "use a smaller grammar, with less nesting and repetition"

log = logging.getLogger(__name__)


class ServerFailed(Exception):
    """The fork server did not start."""


class TokenizerUnusable(ServerFailed):
    """The tokenizer cannot be used for grammars; the message is one line."""


@dataclass(frozen=True, slots=True)
class GrammarVocabulary:
    """The vocabulary that grammars constrain."""

    tokenizer: str
    """`tokenizer.json`."""
    vocabulary: int
    """Number of logits, which may exceed the size of the tokenizer's vocabulary."""
    stop_ids: tuple[int, ...]


class ForkServerHandle:
    """A running fork server; used from the event loop only."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        control: socket.socket,
        changed: Callable[[int, int | None], None],
    ) -> None:
        """`changed` is called with a worker's number and its process id, or None when the worker has ended."""
        self.ended = False
        self._process = process
        self._control = control
        self._changed = changed
        self._lines: dict[int, asyncio.StreamWriter] = {}
        """By worker number; closing the writer ends the worker."""
        self._codes: dict[int, asyncio.Future[int]] = {}
        """Exit code of each live worker."""
        self._compiling: set[int] = set()
        """Workers whose replies are awaited: one that has exited may have sent its last."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._receive)

    @classmethod
    async def start(
        cls, vocabulary: GrammarVocabulary, changed: Callable[[int, int | None], None]
    ) -> "ForkServerHandle":
        """Start the process and wait until it has built its trie.

        Raises:
            ServerFailed: it exited or timed out, or the tokenizer cannot be used.
        """
        spawned = asyncio.create_task(asyncio.to_thread(_spawn, vocabulary))
        try:
            process, control = await asyncio.shield(spawned)
            reply = await _first_message(control)
        except asyncio.CancelledError:
            with suppress(Exception):  # as at the limit of threads
                await _discard(spawned)
            raise
        if reply == READY:
            return cls(process, control, changed)
        await _discard(spawned)
        if reply:
            raise TokenizerUnusable(reply.decode(errors="replace"))
        raise ServerFailed

    async def compile(self, number: int, spec: GrammarSpec) -> str:
        """Return the address of a new worker that has compiled `spec`.

        Raises:
            GrammarRejected: it does not compile, or exceeds a limit.
            NotServing: the fork server has exited, or cannot start a process.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [FORK.pack(number)], [theirs.fileno()])
        ended = self._codes[number] = self._loop.create_future()
        self._compiling.add(number)
        try:
            reader, self._lines[number] = await asyncio.open_unix_connection(sock=ours)
            job = {"kind": spec.kind, "text": spec.text}
            with suppress(OSError):
                self._lines[number].write(json.dumps(job).encode() + b"\n")
            return await _address(reader, ended)
        finally:
            self._compiling.discard(number)
            if ended.done():
                self._close_line(number)

    def end(self, number: int) -> None:
        """Kill a worker; a worker that has exited is ignored."""
        writer = self._lines.pop(number, None)
        if writer is None:
            return
        writer.close()
        with suppress(OSError):
            self._control.send(FORK.pack(number))

    async def close(self) -> None:
        """End the process and its workers; if it has exited, those that have compiled run until `end`."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        for number in list(self._compiling):
            self._close_line(number)
        try:
            await asyncio.to_thread(self._process.wait, 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _receive(self) -> None:
        try:
            message = self._control.recv(WORKER_STATE.size)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            message = b""
        if not message:
            self.ended = True
            self._loop.remove_reader(self._control)
            for code in self._codes.values():
                if not code.done():
                    code.set_result(_LOST)
            return
        number, process, code = WORKER_STATE.unpack(message)
        if code == STARTED:
            self._changed(number, process)
            return
        ended = self._codes.pop(number, None)
        if ended is not None and not ended.done():
            ended.set_result(code)
        if number not in self._compiling:
            self._close_line(number)
        self._changed(number, None)

    def _close_line(self, number: int) -> None:
        writer = self._lines.pop(number, None)
        if writer is not None:
            writer.close()


async def _address(reader: asyncio.StreamReader, ended: asyncio.Future[int]) -> str:
    """Return the address that a worker sends; raise as `compile` does if it sends a rejection or exits."""
    compiled = False
    while True:
        line = await _line(reader)
        if not line:
            _raise_exit(await ended, compiled=compiled)
        reply = json.loads(line)
        if "rejected" in reply:
            raise GrammarRejected(reply["rejected"])
        if "address" in reply and not ended.done():
            return str(reply["address"])
        compiled = True


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except OSError:
        return b""


def _raise_exit(code: int, *, compiled: bool) -> Never:
    """Raise the client's error for a worker that exited with `code`."""
    if code == _LOST:
        raise NotServing("GrammarsRestarting", "the grammar compiler is restarting: retry shortly")
    if code in {NOT_FORKED, worker.NO_THREAD}:
        raise NotServing(
            "GrammarsBusy",
            "the grammar cannot be compiled now: the pod can start no further process: try again later",
        )
    stage = "its first token" if compiled else "compiling it"
    seconds = worker.MASK_SECONDS if compiled else worker.COMPILE_SECONDS
    exceeded = {
        -signal.SIGPROF: f"{seconds:.0f} s of CPU time",
        -signal.SIGSEGV: _STACK,
        -signal.SIGBUS: _STACK,
        -signal.SIGABRT: _MEMORY,
        -signal.SIGKILL: _MEMORY,
        worker.OUT_OF_MEMORY: _MEMORY,
    }
    limit = exceeded.get(code)
    if limit is None:
        log.error("a grammar worker ended with exit code %d", code)
        limit = f"{_MEMORY} or {_STACK}"
    raise GrammarRejected(f"{stage} takes more than {limit}: {_REMEDY}")


async def _first_message(control: socket.socket) -> bytes:
    """Return the process's first message, READY or an error; empty if it exited or timed out."""
    control.setblocking(False)  # noqa: FBT003 - socket's own signature
    try:
        async with asyncio.timeout(START_SECONDS):
            return await asyncio.get_running_loop().sock_recv(control, 1024)
    except (TimeoutError, OSError):
        return b""


async def _discard(spawned: "asyncio.Task[tuple[subprocess.Popen[bytes], socket.socket]]") -> None:
    """Kill a process that failed to start, and wait until it has exited."""
    process, control = await spawned
    process.kill()
    control.close()
    await asyncio.to_thread(process.wait)


def _spawn(vocabulary: GrammarVocabulary) -> tuple["subprocess.Popen[bytes]", socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
            [
                sys.executable,
                "-m",
                "penstock_runtime.engine.continuous.grammar.process",
                str(theirs.fileno()),
            ],
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.PIPE,
            env={**os.environ, "MALLOC_ARENA_MAX": "1", "TOKENIZERS_PARALLELISM": "false"},
        )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    with suppress(OSError), process.stdin as stdin:
        stdin.write(json.dumps(asdict(vocabulary)).encode())
    return process, ours
