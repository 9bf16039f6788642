"""`GrammarClient`: connects the engine to grammar workers, one socket each, read only after a step's forward pass."""

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Final

import numpy as np
from typing_extensions import override

from penstock_runtime.engine.continuous.grammar import worker
from penstock_runtime.engine.continuous.grammar.base import (
    Allowed,
    Broken,
    Complete,
    Grammar,
    GrammarSource,
    Verdict,
)
from penstock_runtime.engine.continuous.grammar.worker import (
    ACCEPT,
    ADVANCE,
    CLOSE,
    COPY,
    OPEN,
    REPLY,
    REQUEST,
)

ENDED: Final = Broken(
    f"a token takes more than {worker.MASK_SECONDS:.0f} s of CPU time, {worker.MEMORY_BYTES >> 20} MiB of memory or"
    f" {worker.STACK_BYTES >> 20} MiB of stack: use a smaller grammar, with less nesting and repetition"
)
_MAX_REASON_BYTES: Final = 2048
_POLL_SECONDS: Final = 0.002
"""Interval at which a wait checks for closed states."""


class GrammarClient(GrammarSource):
    """Starts and closes states in one thread; any thread may wait for verdicts."""

    def __init__(self, vocabulary: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes = REPLY.size + max((vocabulary + 31) // 32 * 4, _MAX_REASON_BYTES)
        self._clock = clock
        self._channels: dict[str, _Channel] = {}
        self._names = count()
        self._lock = threading.Lock()
        """Guards reading from sockets and closing them."""

    @override
    def start(self, address: str) -> "RemoteGrammar":
        return RemoteGrammar(self, address, next(self._names))

    @override
    def wait(self, grammars: Iterable[Grammar], seconds: float) -> None:
        waiting = [
            grammar
            for grammar in grammars
            if grammar.verdict is None and isinstance(grammar, RemoteGrammar)
        ]
        deadline = self._clock() + seconds
        with self._lock:
            while waiting:
                channels = {grammar.channel for grammar in waiting if grammar.channel is not None}
                for channel in channels:
                    channel.read()
                waiting = [grammar for grammar in waiting if grammar.verdict is None]
                left = deadline - self._clock()
                if not waiting or left <= 0.0:
                    return
                _poll(channels, min(left, _POLL_SECONDS))

    def join(self, grammar: "RemoteGrammar", address: str) -> "_Channel":
        """Return the channel to `address`, which its first state opens."""
        channel = self._channels.get(address)
        if channel is None or channel.dead:
            channel = self._channels[address] = _Channel(address, self._bytes)
        channel.states[grammar.name] = grammar
        return channel

    def leave(self, grammar: "RemoteGrammar", channel: "_Channel") -> None:
        """Remove a state from its channel; the last one closes the channel."""
        channel.states.pop(grammar.name, None)
        if channel.states:
            channel.send(REQUEST.pack(CLOSE, grammar.name, 0))
            return
        with self._lock:
            channel.close()
        if self._channels.get(channel.address) is channel:
            del self._channels[channel.address]


class RemoteGrammar(Grammar):
    """A grammar state in a worker process; `begin` connects to the worker."""

    __slots__ = ("_address", "_client", "channel", "name", "verdict")

    def __init__(self, client: GrammarClient, address: str, name: int) -> None:
        self.name = name
        self.verdict: Verdict | None = None
        self.channel: _Channel | None = None
        self._client = client
        self._address = address

    @override
    def begin(self) -> None:
        if self.channel is None and self.verdict is None:
            self.channel = self._client.join(self, self._address)
            self.channel.send(REQUEST.pack(OPEN, self.name, 0))

    @override
    def resume(self, tokens: Sequence[int]) -> None:
        self.channel = self._client.join(self, self._address)
        self.channel.send(REQUEST.pack(COPY, self.name, 0))
        for token in tokens[:-1]:
            self.channel.send(REQUEST.pack(ADVANCE, self.name, token))
        self.accept(tokens[-1])

    @override
    def accept(self, token: int) -> None:
        if self.channel is None or isinstance(self.verdict, Broken):
            return
        self.verdict = None
        if self.channel.dead:
            self.verdict = ENDED
        else:
            self.channel.send(REQUEST.pack(ACCEPT, self.name, token))

    @override
    def close(self) -> None:
        channel, self.channel = self.channel, None
        self.verdict = ENDED
        if channel is not None:
            self._client.leave(self, channel)


class _Channel:
    """The socket to one worker."""

    def __init__(self, address: str, bytes_: int) -> None:
        self.address = address
        self.states: dict[int, RemoteGrammar] = {}
        self.dead = False
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._bytes = bytes_
        self._unsent: deque[bytes] = deque()
        """Messages queued while the socket buffer is full; the next read sends them."""
        self.socket.setblocking(False)  # noqa: FBT003 - socket's own signature
        try:
            self.socket.connect(address)
        except OSError:
            self.dead = True

    def send(self, message: bytes) -> None:
        """Send `message`, or queue it until the socket accepts more."""
        if self.dead:
            self._end()
        elif self._unsent or not self._sent(message):
            self._unsent.append(message)

    def read(self) -> None:
        """Read all verdicts that have arrived; requires the client's lock."""
        while self._unsent and self._sent(self._unsent[0]):
            self._unsent.popleft()
        while not self.dead:
            reply = bytearray(self._bytes)
            try:
                size = self.socket.recv_into(reply)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                size = 0
            if not size:
                self.dead = True
                break
            self._take(reply, size)
        self._end()

    def close(self) -> None:
        """Close the socket."""
        self.dead = True
        self.socket.close()

    def _take(self, reply: bytearray, size: int) -> None:
        name, kind = REPLY.unpack_from(reply)
        state = self.states.get(name)
        if state is None:
            return
        if kind == worker.ALLOWED:
            words = (size - REPLY.size) // 4
            state.verdict = Allowed(np.frombuffer(reply, np.uint32, words, REPLY.size))
        elif kind == worker.COMPLETE:
            state.verdict = Complete()
        else:
            state.verdict = Broken(reply[REPLY.size : size].decode(errors="replace"))

    def _sent(self, message: bytes) -> bool:
        """Send `message`; return False if it must be sent again."""
        try:
            self.socket.send(message)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.dead = True
        return True

    def _end(self) -> None:
        """End all states that wait for a verdict: the worker has exited."""
        for state in list(self.states.values()):
            if state.verdict is None:
                state.verdict = ENDED


def _poll(channels: Iterable[_Channel], seconds: float) -> None:
    poll = select.poll()
    for channel in channels:
        if not channel.dead:
            poll.register(channel.socket, select.POLLIN)
    poll.poll(max(1.0, seconds * 1000))
