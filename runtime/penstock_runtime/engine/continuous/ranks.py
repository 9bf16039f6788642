"""The ranks of a split model as engines: rank 0 runs the generation engine, the others follow its steps."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from typing_extensions import override

from penstock_api.pod_contract import LimitsUpdate
from penstock_runtime.engine.continuous.limits import GenerationInfo
from penstock_runtime.engine.continuous.messages import Stepped, ToGeneration
from penstock_runtime.engine.continuous.opening import (
    OpenedGenerationEngine,
    open_generation_engine,
)
from penstock_runtime.engine.continuous.steps.interfaces import StepExecutor
from penstock_runtime.engine.dynamic.loop import HeartbeatWriter, Inbox
from penstock_runtime.engine.model import DeviceLost

PULSE_SECONDS: Final = 1.0
"""Interval at which each rank shows that its process runs, whether or not a step does."""


class StepFollower(Protocol):
    """A rank that runs the steps of rank 0."""

    def follow(self) -> None:
        """Run steps without limit.

        Raises:
            DeviceLost: the other ranks are gone, or no further step can run.
        """


@dataclass(frozen=True, slots=True)
class OpenedLeader:
    """The generation engine of rank 0; an `engine.link.base.OpenedEngine`."""

    opened: OpenedGenerationEngine
    receives_in_thread: ClassVar[bool] = True

    @property
    def info(self) -> GenerationInfo:
        """Description of the model."""
        return self.opened.info

    def first_report(self) -> Stepped:
        """Return the report that precedes the first request."""
        return self.opened.first_report()

    def serve(
        self,
        inbox: Inbox[ToGeneration],
        post: Callable[[Stepped], None],
        heartbeat: HeartbeatWriter,
        clock: Callable[[], float],
    ) -> None:
        """Serve until the inbox is closed."""
        with pulsing(heartbeat) as shared:
            self.opened.serve(inbox, post, shared, clock)


@dataclass(frozen=True, slots=True)
class OpenedFollower:
    """A rank that follows; an `engine.link.base.OpenedEngine`, which receives no message."""

    follower: StepFollower
    info: None = None
    receives_in_thread: ClassVar[bool] = True

    def first_report(self) -> None:
        """Return nothing: rank 0 reports."""

    def serve(
        self,
        inbox: Inbox[object],
        post: Callable[[None], None],  # noqa: ARG002 - rank 0 reports
        heartbeat: HeartbeatWriter,
        clock: Callable[[], float],  # noqa: ARG002 - a follower needs no time
    ) -> None:
        """Follow until the group ends.

        Raises:
            DeviceLost: it ended before the inbox was closed.
        """
        with pulsing(heartbeat):
            try:
                self.follower.follow()
            except DeviceLost:
                if inbox.receive(until=0.0) is not None:
                    raise


def open_leading_engine(
    load: Callable[[], StepExecutor],
    limits: LimitsUpdate,
    depth: int,
    clock: Callable[[], float],
) -> OpenedLeader:
    """Load rank 0 and start its engine.

    Raises:
        ModelLoadFailed: as `load`.
    """
    return OpenedLeader(open_generation_engine(load, limits, depth, clock))


def open_following_engine(
    load: Callable[[], StepFollower],
    clock: Callable[[], float],  # noqa: ARG001 - a follower needs no time
) -> OpenedFollower:
    """Load another rank.

    Raises:
        ModelLoadFailed: as `load`.
    """
    return OpenedFollower(load())


class SharedWriter(HeartbeatWriter):
    """A heartbeat that two threads write."""

    def __init__(self, heartbeat: HeartbeatWriter) -> None:
        self._heartbeat = heartbeat
        self._lock = threading.Lock()

    @override
    def begin(self, predicted_seconds: float) -> None:
        with self._lock:
            self._heartbeat.begin(predicted_seconds)

    @override
    def tick(self) -> None:
        with self._lock:
            self._heartbeat.tick()

    @override
    def end(self) -> None:
        with self._lock:
            self._heartbeat.end()

    @override
    def tick_idle(self) -> None:
        with self._lock:
            self._heartbeat.tick_idle()


@contextmanager
def pulsing(heartbeat: HeartbeatWriter) -> Iterator[HeartbeatWriter]:
    """Write `heartbeat` every second from a thread; the value is for the engine's own thread."""
    shared, ended = SharedWriter(heartbeat), threading.Event()

    def pulse() -> None:
        while not ended.wait(PULSE_SECONDS):
            shared.tick_idle()

    shared.tick_idle()
    threading.Thread(target=pulse, name="penstock-pulse", daemon=True).start()
    try:
        yield shared
    finally:
        ended.set()
