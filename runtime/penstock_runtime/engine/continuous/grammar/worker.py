"""The grammar worker: one compiled grammar in its own process, so that faults affect only its requests.

A fault is a crash, excess memory or a slow mask. Forked by `grammar.process`. It compiles the grammar that it reads
from the service's socket, computes the first mask, sends the service its address, and then serves states to the
engine: one socket message per token each way. It stops when the service closes its socket. This module imports
neither numpy nor torch.
"""

import ctypes
import json
import os
import resource
import secrets
import selectors
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind

STACK_BYTES: Final = 8 * 2**20
MEMORY_BYTES: Final = 192 * 2**20
"""Limit of the address space, in addition to the process's size at the fork."""
COMPILE_SECONDS: Final = 3.0
"""Limit of the CPU time of a compilation."""
MASK_SECONDS: Final = 1.0
"""Limit of the CPU time of one mask."""
QUICK_SECONDS: Final = 0.05
"""A compilation with its first mask that takes longer continues at a lower priority."""
SLOW_NICENESS: Final = 10
OUT_OF_MEMORY: Final = 3
"""Exit code."""
NO_THREAD: Final = 4
"""Exit code of a worker that cannot start its thread, as at the limit of processes."""
LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # about 20 ms
    step_lexer_fuel=200_000,
    max_lexer_states=50_000,  # about 75 MB
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""The library's own limits; the limits of the process cover what these do not."""
WHITESPACE: Final = r"[\x20\x0A]{0,12}"
"""Allows a model to indent its JSON, but not to spend all its tokens on spaces."""

REQUEST: Final = struct.Struct("<BQi")
"""Engine to worker: operation, state, token."""
OPEN, ACCEPT, CLOSE, COPY, ADVANCE = range(5)
"""`COPY` opens a state, and `ADVANCE` advances one, without a reply."""
REPLY: Final = struct.Struct("<QQ")
"""Worker to engine: state and kind of verdict; then the mask's words, nothing, or the reason in UTF-8."""
ALLOWED, COMPLETE, BROKEN = range(3)
_MAX_REASON: Final = 300


class Masker:
    """Computes the masks of one grammar's states in one buffer."""

    def __init__(self, vocabulary: int, stop_ids: list[int]) -> None:
        self._size = (vocabulary + 31) // 32 * 4
        self._mask = bytearray(self._size)
        self._address = ctypes.addressof((ctypes.c_char * self._size).from_buffer(self._mask))
        self._stop_ids = stop_ids
        self._zeros = bytes(self._size)

    def verdict(self, matcher: LLMatcher) -> tuple[int, bytes]:
        """Return what may follow, as kind and payload of `REPLY`; too much CPU time kills the process."""
        if matcher.is_stopped() and not matcher.is_error():
            return COMPLETE, b""
        with _CpuTime(MASK_SECONDS):
            matcher.unsafe_compute_mask_ptr(self._address, self._size)
        if matcher.is_error():
            return BROKEN, first_line(matcher.get_error()).encode()
        if matcher.is_accepting() and self._only_stops():
            return COMPLETE, b""
        if self._mask == self._zeros:
            return BROKEN, b"the grammar allows none of the model's tokens here"
        return ALLOWED, bytes(self._mask)

    def _only_stops(self) -> bool:
        rest = bytearray(self._mask)
        for stop in self._stop_ids:
            rest[stop >> 3] &= ~(1 << (stop & 7)) & 0xFF
        return rest == self._zeros


class Worker:
    """Serves the states of one compiled grammar."""

    def __init__(self, matcher: LLMatcher, masker: Masker) -> None:
        self._matcher = matcher
        self._masker = masker
        self._first = masker.verdict(matcher.deep_copy())
        self._selector = selectors.DefaultSelector()

    @property
    def rejection(self) -> str | None:
        """The reason why no first token is possible, or None."""
        kind, rest = self._first
        return rest.decode() if kind == BROKEN else None

    def serve(self, service: socket.socket, listener: socket.socket) -> None:
        """Serve until the service closes its side."""
        listener.setblocking(False)  # noqa: FBT003 - socket's own signature
        self._selector.register(service, selectors.EVENT_READ)
        self._selector.register(listener, selectors.EVENT_READ, self._connect)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is service:
                    return
                key.data(key.fileobj)

    def _connect(self, listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            connection.setblocking(True)  # noqa: FBT003 - socket's own signature
            states: dict[int, LLMatcher] = {}
            self._selector.register(
                connection, selectors.EVENT_READ, partial(self._answer, states=states)
            )

    def _answer(self, connection: socket.socket, states: dict[int, LLMatcher]) -> None:
        try:
            request = connection.recv(REQUEST.size)
            if request:
                self._execute(connection, states, *REQUEST.unpack(request))
                return
        except OSError:
            pass
        self._selector.unregister(connection)
        connection.close()

    def _execute(
        self,
        connection: socket.socket,
        states: dict[int, LLMatcher],
        kind: int,
        name: int,
        token: int,
    ) -> None:
        if kind == CLOSE:
            states.pop(name, None)
            return
        if kind == COPY:
            states[name] = self._matcher.deep_copy()
            return
        if kind == ADVANCE:
            self._consume(states[name], token)
            return
        if kind == OPEN:
            states[name], (verdict, payload) = self._matcher.deep_copy(), self._first
        else:
            verdict, payload = self._accepted(states[name], token)
        connection.sendmsg([REPLY.pack(name, verdict), payload])

    @staticmethod
    def _consume(matcher: LLMatcher, token: int) -> None:
        with _CpuTime(MASK_SECONDS):
            matcher.consume_token(token)

    def _accepted(self, matcher: LLMatcher, token: int) -> tuple[int, bytes]:
        self._consume(matcher, token)
        if matcher.is_error():
            return BROKEN, first_line(matcher.get_error()).encode()
        return self._masker.verdict(matcher)


def run(service: socket.socket, tokenizer: LLTokenizer, stop_ids: list[int]) -> NoReturn:
    """Run a worker in this process, which was forked for it."""
    code = 1
    try:
        _limit_resources()
        _serve(service, tokenizer, stop_ids)
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)


def _serve(service: socket.socket, tokenizer: LLTokenizer, stop_ids: list[int]) -> None:
    with service.makefile("rw", encoding="utf-8") as lines:
        job = json.loads(lines.readline() or "null")
        if job is None:
            return
        worker = _at_falling_priority(partial(_prepare, lines, tokenizer, stop_ids, job))
        if isinstance(worker, str):
            _send(lines, rejected=worker)
            return
        address = f"\0penstock-grammar-{secrets.token_hex(16)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            listener.listen()
            _send(lines, address=address)
            worker.serve(service, listener)


def _at_falling_priority(prepare: Callable[[], Worker | str]) -> Worker | str:
    """Return the result of `prepare`, which runs in a thread whose priority is lowered after QUICK_SECONDS.

    Many grammars at once thus do not slow the engine down. Later masks, which running requests wait for, are computed
    in the main thread at normal priority.
    """
    results: list[Worker | str] = []

    def run_() -> None:
        try:
            results.append(prepare())
        except MemoryError:
            os._exit(OUT_OF_MEMORY)

    threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=run_)
    try:
        thread.start()
    except RuntimeError:
        os._exit(NO_THREAD)
    thread.join(QUICK_SECONDS)
    if thread.is_alive() and thread.native_id is not None:
        with suppress(OSError):  # it has just ended
            os.setpriority(os.PRIO_PROCESS, thread.native_id, SLOW_NICENESS)
    thread.join()
    return results[0]


def _prepare(lines: Any, tokenizer: LLTokenizer, stop_ids: list[int], job: Any) -> Worker | str:
    """Compile the grammar and compute its first mask; return the reason if it cannot be enforced."""
    compiled = _compile(tokenizer, GrammarKind(job["kind"]), job["text"])
    if isinstance(compiled, str):
        return compiled
    _send(lines, compiled=True)
    worker = Worker(compiled, Masker(tokenizer.vocab_size, stop_ids))
    return worker.rejection or worker


def _send(lines: Any, **message: object) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def _compile(tokenizer: LLTokenizer, kind: GrammarKind, text: str) -> LLMatcher | str:
    """Return the compiled grammar, or the reason why it does not compile."""
    try:
        with _CpuTime(COMPILE_SECONDS):
            matcher = LLMatcher(tokenizer, _source(kind, text), log_level=0, limits=LIMITS)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001  any error of the library is the grammar's
        return first_line(str(error)) or type(error).__name__
    return first_line(matcher.get_error()) if matcher.is_error() else matcher


def _source(kind: GrammarKind, text: str) -> str:
    match kind:
        case GrammarKind.JSON_SCHEMA:
            return LLMatcher.grammar_from_json_schema(
                text, overrides={"whitespace_pattern": WHITESPACE}
            )
        case GrammarKind.REGEX:
            return LLMatcher.grammar_from_regex(text)
        case GrammarKind.LARK:
            return LLMatcher.grammar_from_lark(text)


def _limit_resources() -> None:
    """Limit this process's resources, and silence stderr: a crash would print the client's text."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # so that the OOM killer takes this process first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())


class _CpuTime:
    """Kills this process by SIGPROF when the block takes more than `seconds` of CPU time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def first_line(text: str, limit: int = _MAX_REASON) -> str:
    """Return the first non-empty line of `text`, cut to `limit` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."
