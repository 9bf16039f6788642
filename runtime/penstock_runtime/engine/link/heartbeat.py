"""Heartbeats of engines: `SharedHeartbeat` across processes, `ThreadHeartbeat` within one."""

import mmap
import struct
from collections.abc import Callable
from dataclasses import replace

from penstock_runtime.engine.link.base import Heartbeat

HEARTBEAT_BYTES = 64
_VERSION = struct.Struct("<q")
_VALUES = struct.Struct("<dddd")
_TRIES = 1000


class SharedHeartbeat:
    """Four numbers under a sequence lock (Linux, Documentation/locking/seqlock.rst): odd while the writer writes."""

    def __init__(self, memory: mmap.mmap, clock: Callable[[], float]) -> None:
        self._memory = memory
        self._clock = clock
        self._predicted_seconds = 0.0
        self._busy = False
        self._last_step = clock()

    # -- the engine's side: `engine.dynamic.loop.HeartbeatWriter`

    def begin(self, predicted_seconds: float) -> None:
        """Record that a step starts, and its predicted duration."""
        self._predicted_seconds = predicted_seconds
        self.tick()

    def tick(self) -> None:
        """Record that the running step makes progress."""
        self._write(busy=True, predicted_seconds=self._predicted_seconds)

    def end(self) -> None:
        """Record that the step has ended."""
        self._write(busy=False, predicted_seconds=0.0)

    def tick_idle(self) -> None:
        """Record that the process is alive; a running step remains."""
        predicted = self._predicted_seconds if self._busy else 0.0
        self._store(self._last_step, self._clock(), busy=self._busy, predicted_seconds=predicted)

    def _write(self, *, busy: bool, predicted_seconds: float) -> None:
        self._busy = busy
        self._last_step = now = self._clock()
        self._store(now, now, busy=busy, predicted_seconds=predicted_seconds)

    def _store(
        self, last_step: float, alive_at: float, *, busy: bool, predicted_seconds: float
    ) -> None:
        (version,) = _VERSION.unpack_from(self._memory)
        _VERSION.pack_into(self._memory, 0, version + 1)
        _VALUES.pack_into(
            self._memory, _VERSION.size, last_step, float(busy), predicted_seconds, alive_at
        )
        _VERSION.pack_into(self._memory, 0, version + 2)

    # -- the reader's side

    def read(self, last: Heartbeat) -> Heartbeat:
        """Return the last complete heartbeat; `last` before the first, or when the writer died while writing."""
        for _ in range(_TRIES):
            (before,) = _VERSION.unpack_from(self._memory)
            last_step, busy, predicted, alive_at = _VALUES.unpack_from(self._memory, _VERSION.size)
            (after,) = _VERSION.unpack_from(self._memory)
            if before == after and before % 2 == 0:
                return Heartbeat(last_step, bool(busy), predicted, alive_at) if before else last
        return last


class ThreadHeartbeat:
    """The heartbeat of an engine in this process: one reference, replaced whole, so that readers need no lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._predicted_seconds = 0.0
        now = clock()
        self.last = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def begin(self, predicted_seconds: float) -> None:
        """Record that a step starts, and its predicted duration."""
        self._predicted_seconds = predicted_seconds
        self.tick()

    def tick(self) -> None:
        """Record that the running step makes progress."""
        now = self._clock()
        self.last = Heartbeat(
            now, busy=True, predicted_seconds=self._predicted_seconds, alive_at=now
        )

    def end(self) -> None:
        """Record that the step has ended."""
        now = self._clock()
        self.last = Heartbeat(now, busy=False, predicted_seconds=0.0, alive_at=now)

    def tick_idle(self) -> None:
        """Record that the engine is alive while it waits for work."""
        self.last = replace(self.last, alive_at=self._clock())
