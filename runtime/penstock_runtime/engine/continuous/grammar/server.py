"""The service's handle on the fork server: sends it sockets, hears of its workers, and speaks with each of them."""

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
from penstock_runtime.engine.continuous.grammar.process import FORK, NEWS, READY, STARTED
from penstock_runtime.engine.continuous.grammar.spec import GrammarRejected, GrammarSpec
from penstock_runtime.errors import NotServing

START_SECONDS: Final = 120.0
"""For the trie of a large vocabulary on a busy core."""
_MEMORY = f"{worker.MEMORY_BYTES >> 20} MiB of memory"
_STACK = f"{worker.STACK_BYTES >> 20} MiB of stack"
_LOST: Final = 1 << 29
"""Instead of a worker's exit code: the fork server has ended before it."""
_REMEDY = "make it smaller, or nest and repeat less"

log = logging.getLogger(__name__)


class ServerFailed(Exception):
    """The fork server did not start."""


class TokenizerUnusable(ServerFailed):
    """Nor will it ever, with this tokenizer; the message is one line."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """What grammars are over."""

    tokenizer: str
    """`tokenizer.json`."""
    vocabulary: int
    """Counts logits, which may be more than the tokenizer has ids."""
    ends: tuple[int, ...]


class ForkServerHandle:
    """A running fork server, used in the event loop."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        control: socket.socket,
        changed: Callable[[int, int | None], None],
    ) -> None:
        """`changed` is called with a worker's number and its process, or None when that has ended."""
        self.ended = False
        self._process = process
        self._control = control
        self._changed = changed
        self._lines: dict[int, asyncio.StreamWriter] = {}
        """To each worker that lives; its end is the worker's."""
        self._codes: dict[int, asyncio.Future[int]] = {}
        """How each worker of those ends."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(control, self._hear)

    @classmethod
    async def start(
        cls, tokens: Tokens, changed: Callable[[int, int | None], None]
    ) -> "ForkServerHandle":
        """Start the process and wait until it has built its trie.

        Raises:
            ServerFailed: it ended, or the tokenizer cannot be used.
        """
        spawned = asyncio.create_task(asyncio.to_thread(_spawn, tokens))
        try:
            process, control = await asyncio.shield(spawned)
            said = await _first_message(control)
        except asyncio.CancelledError:
            await _discard(spawned)
            raise
        if said == READY:
            return cls(process, control, changed)
        await _discard(spawned)
        if said:
            raise TokenizerUnusable(said.decode(errors="replace"))
        raise ServerFailed

    async def compile(self, number: int, spec: GrammarSpec) -> str:
        """Return the address of a new worker that holds `spec`.

        Raises:
            Unenforceable: it does not compile, or exceeds a limit.
            NotServing: the fork server has ended.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [FORK.pack(number)], [theirs.fileno()])
        ended = self._codes[number] = self._loop.create_future()
        reader, writer = await asyncio.open_unix_connection(sock=ours)
        self._lines[number] = writer
        asked = {"kind": spec.kind, "text": spec.text}
        with suppress(OSError):
            writer.write(json.dumps(asked).encode() + b"\n")
        compiled = False
        while True:
            line = await _line(reader)
            if not line:
                _refuse(await ended, compiled=compiled)
            told = json.loads(line)
            if "refused" in told:
                raise GrammarRejected(told["refused"])
            if "address" in told:
                return str(told["address"])
            compiled = True

    def end(self, number: int) -> None:
        """Kill a worker; one that has ended is ignored."""
        writer = self._lines.pop(number, None)
        if writer is None:
            return
        writer.close()
        with suppress(OSError):
            self._control.send(FORK.pack(number))

    async def close(self) -> None:
        """End the process and all its workers."""
        if self._control.fileno() >= 0:
            self._loop.remove_reader(self._control)
            self._control.close()
        for writer in self._lines.values():
            writer.close()
        self._lines.clear()
        try:
            await asyncio.to_thread(self._process.wait, 5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _hear(self) -> None:
        try:
            message = self._control.recv(NEWS.size)
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
        number, process, code = NEWS.unpack(message)
        if code == STARTED:
            self._changed(number, process)
            return
        ended = self._codes.pop(number, None)
        if ended is not None and not ended.done():
            ended.set_result(code)
        writer = self._lines.pop(number, None)
        if writer is not None:
            writer.close()
        self._changed(number, None)


async def _line(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readline()
    except OSError:
        return b""


def _refuse(code: int, *, compiled: bool) -> Never:
    """Raise what a worker's end means to its client."""
    if code == _LOST:
        raise NotServing("GrammarsRestarting", "grammars are being restarted: try again soon")
    doing = "its first token" if compiled else "compiling it"
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
        log.error("the process of a grammar ended with code %d", code)
        limit = f"{_MEMORY} or {_STACK}"
    raise GrammarRejected(f"{doing} takes more than {limit}: {_REMEDY}")


async def _first_message(control: socket.socket) -> bytes:
    """Return what the process sends when it is ready or refuses; empty where it ended or took too long."""
    control.setblocking(False)  # noqa: FBT003 - socket's own signature
    try:
        async with asyncio.timeout(START_SECONDS):
            return await asyncio.get_running_loop().sock_recv(control, 1024)
    except (TimeoutError, OSError):
        return b""


async def _discard(spawned: "asyncio.Task[tuple[subprocess.Popen[bytes], socket.socket]]") -> None:
    """Kill a process that does not serve, and wait for its end."""
    process, control = await spawned
    process.kill()
    control.close()
    await asyncio.to_thread(process.wait)


def _spawn(tokens: Tokens) -> tuple["subprocess.Popen[bytes]", socket.socket]:
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
    with suppress(OSError), process.stdin as given:
        given.write(json.dumps(asdict(tokens)).encode())
    return process, ours
