"""One compiled grammar in a process of its own: what it crashes, fills or delays is its own requests' affair.

Forked by `grammar.process`. It compiles what comes through the socket of the service, computes the first mask, tells
the service its address, and from then on serves states to the engine: one socket message a token each way. The end of
the service's socket is the order to stop. Nothing here imports numpy or torch.
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
from pathlib import Path
from typing import Any, Final, NoReturn

from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from penstock_runtime.engine.continuous.grammar.spec import GrammarKind

STACK_BYTES: Final = 8 * 2**20
MEMORY_BYTES: Final = 192 * 2**20
"""Of address space beyond what the process has when it is forked."""
COMPILE_SECONDS: Final = 3.0
"""CPU time of a compilation."""
MASK_SECONDS: Final = 1.0
"""CPU time of one mask."""
BRIEF_SECONDS: Final = 0.05
"""A compilation that takes longer goes on at a lower priority."""
LATER_NICENESS: Final = 10
OUT_OF_MEMORY: Final = 3
"""Exit code."""
LIMITS: Final = LLParserLimits(
    initial_lexer_fuel=1_000_000,  # about 20 ms
    step_lexer_fuel=200_000,
    max_lexer_states=50_000,  # about 75 MB
    max_grammar_size=100_000,
    verbose_errors=False,
)
"""The library's own bounds, which do not hold everywhere: the process's do."""
WHITESPACE: Final = r"[\x20\x0A]{0,12}"
"""A model may indent its JSON, but not write spaces until its tokens are used up."""

REQUEST: Final = struct.Struct("<BQi")
"""Engine to worker: what is asked, of which state, the token."""
OPEN, ACCEPT, CLOSE = range(3)
REPLY: Final = struct.Struct("<QQ")
"""Worker to engine: of which state, and what follows: the mask's words, nothing, or the reason in UTF-8."""
ALLOWED, COMPLETE, BROKEN = range(3)
_MAX_REASON: Final = 300


class Masker:
    """Masks of one grammar's states, in one buffer."""

    def __init__(self, vocabulary: int, ends: list[int]) -> None:
        self._size = (vocabulary + 31) // 32 * 4
        self._mask = bytearray(self._size)
        self._address = ctypes.addressof((ctypes.c_char * self._size).from_buffer(self._mask))
        self._ends = ends
        self._zeros = bytes(self._size)

    def verdict(self, matcher: LLMatcher) -> tuple[int, bytes]:
        """Return what may follow, as `REPLY` has it; the process is killed if that takes too much CPU time."""
        if matcher.is_stopped() and not matcher.is_error():
            return COMPLETE, b""
        with _CpuTime(MASK_SECONDS):
            matcher.unsafe_compute_mask_ptr(self._address, self._size)
        if matcher.is_error():
            return BROKEN, first_line(matcher.get_error()).encode()
        if matcher.is_accepting() and self._only_ends():
            return COMPLETE, b""
        if self._mask == self._zeros:
            return BROKEN, b"none of the model's tokens may follow here"
        return ALLOWED, bytes(self._mask)

    def _only_ends(self) -> bool:
        rest = bytearray(self._mask)
        for end in self._ends:
            rest[end >> 3] &= ~(1 << (end & 7)) & 0xFF
        return rest == self._zeros


class Worker:
    """Serves the states of one compiled grammar."""

    def __init__(self, matcher: LLMatcher, masker: Masker) -> None:
        self._matcher = matcher
        self._masker = masker
        self._first = masker.verdict(matcher.deep_copy())
        self._selector = selectors.DefaultSelector()

    @property
    def refusal(self) -> str | None:
        """Why not even the first token can be drawn."""
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
            answer: Callable[[socket.socket], None] = lambda one: self._answer(one, states)  # noqa: E731
            self._selector.register(connection, selectors.EVENT_READ, answer)

    def _answer(self, connection: socket.socket, states: dict[int, LLMatcher]) -> None:
        try:
            asked = connection.recv(REQUEST.size)
            if asked:
                self._take(connection, states, *REQUEST.unpack(asked))
                return
        except OSError:
            pass
        self._selector.unregister(connection)
        connection.close()

    def _take(
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
        if kind == OPEN:
            states[name], (found, rest) = self._matcher.deep_copy(), self._first
        else:
            found, rest = self._accepted(states[name], token)
        connection.sendmsg([REPLY.pack(name, found), rest])

    def _accepted(self, matcher: LLMatcher, token: int) -> tuple[int, bytes]:
        with _CpuTime(MASK_SECONDS):
            matcher.consume_token(token)
        if matcher.is_error():
            return BROKEN, first_line(matcher.get_error()).encode()
        return self._masker.verdict(matcher)


def run(service: socket.socket, tokenizer: LLTokenizer, ends: list[int]) -> NoReturn:
    """Live as a worker in this process, which was forked for it."""
    code = 1
    try:
        _confine()
        _live(service, tokenizer, ends)
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)


def _live(service: socket.socket, tokenizer: LLTokenizer, ends: list[int]) -> None:
    with service.makefile("rw", encoding="utf-8") as lines:
        asked = json.loads(lines.readline() or "null")
        if asked is None:
            return
        made = _compile(tokenizer, GrammarKind(asked["kind"]), asked["text"])
        if isinstance(made, str):
            _tell(lines, refused=made)
            return
        _tell(lines, compiled=True)
        worker = Worker(made, Masker(tokenizer.vocab_size, ends))
        if worker.refusal is not None:
            _tell(lines, refused=worker.refusal)
            return
        address = f"\0penstock-grammar-{secrets.token_hex(16)}"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(address)
            listener.listen()
            _tell(lines, address=address)
            worker.serve(service, listener)


def _tell(lines: Any, **message: object) -> None:
    lines.write(json.dumps(message) + "\n")
    lines.flush()


def _compile(tokenizer: LLTokenizer, kind: GrammarKind, text: str) -> LLMatcher | str:
    """Return the compiled grammar, or why it does not compile.

    In a thread, whose priority falls if it takes long: a flood of grammars takes no core from the engine, and masks,
    which a generation waits for, are computed at the usual one.
    """
    made: list[LLMatcher | str] = []

    def compile_() -> None:
        try:
            matcher = LLMatcher(tokenizer, _source(kind, text), log_level=0, limits=LIMITS)
            made.append(first_line(matcher.get_error()) if matcher.is_error() else matcher)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except Exception as error:  # noqa: BLE001  whatever the library raises is the grammar's fault
            made.append(first_line(str(error)) or type(error).__name__)

    threading.stack_size(STACK_BYTES)
    with _CpuTime(COMPILE_SECONDS):
        thread = threading.Thread(target=compile_)
        thread.start()
        thread.join(BRIEF_SECONDS)
        if thread.is_alive() and thread.native_id is not None:
            with suppress(OSError):  # it has just ended
                os.setpriority(os.PRIO_PROCESS, thread.native_id, LATER_NICENESS)
        thread.join()
    return made[0]


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


def _confine() -> None:
    """Bound what this process may take; what it writes to stderr as it dies is the client's text."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # where the pod's memory is used up, this goes first
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stderr.fileno())


class _CpuTime:
    """Kills this process, by SIGPROF, when the block takes more than so many seconds of CPU time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, self._seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0.0)


def first_line(text: str, limit: int = _MAX_REASON) -> str:
    """Return the first line of `text` that says something, cut to `limit` characters."""
    line = next((one.strip() for one in text.splitlines() if one.strip()), "")
    return line if len(line) <= limit else line[: limit - 3] + "..."
