"""`serve`: the loop of a batch engine: take messages, complete the last batch, form the next, report, run."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

from penstock_runtime.engine.dynamic.batch_former import Batch, NothingWaits, WaitUntil
from penstock_runtime.engine.dynamic.engine import BatchEngine
from penstock_runtime.engine.dynamic.execution import BatchResult
from penstock_runtime.engine.messages import Settled, ToEngine

IDLE_TICK_SECONDS: Final = 1.0
"""Interval of the heartbeat of an idle engine."""


M_co = TypeVar("M_co", covariant=True)


class Inbox(Protocol[M_co]):
    """The queue of messages to an engine."""

    def receive(self, until: float | None) -> Sequence[M_co] | None:
        """Return all waiting messages in order; None once the inbox is closed.

        An empty inbox blocks until `until` (None: without limit), then returns an empty sequence.
        """


class HeartbeatWriter(Protocol):
    """The heartbeat as its engine writes it."""

    def begin(self, predicted_seconds: float) -> None:
        """Record that a step starts, and its predicted duration."""

    def tick(self) -> None:
        """Record that the running step makes progress."""

    def end(self) -> None:
        """Record that the step has ended."""

    def tick_idle(self) -> None:
        """Record that the process is alive; a running step remains."""


def serve(
    engine: BatchEngine,
    inbox: Inbox[ToEngine],
    post: Callable[[Settled], None],
    heartbeat: HeartbeatWriter,
    clock: Callable[[], float],
) -> None:
    """Serve until the inbox is closed, then end the remaining requests.

    Each step posts one `Settled` before the next batch runs: it contains the ends of the last batch
    and the number of requests in the next one.
    """
    until: float | None = None
    result: BatchResult | None = None
    while (messages := receive(inbox, until, heartbeat, clock)) is not None:
        now = clock()
        _take_in(engine, messages, now)
        if result is not None:
            engine.complete(result)
            result = None
        placement = engine.plan(now)
        _post_report(engine, post)
        match placement:
            case Batch():
                result = _run(engine, placement, heartbeat, clock)
                until = now
            case WaitUntil(time):
                until = time
            case NothingWaits():
                until = None
        del messages, placement  # so that a waiting engine keeps no tensors
    if result is not None:
        engine.complete(result)
    engine.fail_all("the engine was closed", retry_after_seconds=1.0)
    _post_report(engine, post)


def receive(
    inbox: Inbox[M_co], until: float | None, heartbeat: HeartbeatWriter, clock: Callable[[], float]
) -> Sequence[M_co] | None:
    """Return the messages of the inbox; the heartbeat ticks during the wait."""
    while True:
        now = clock()
        if until is not None and until <= now:
            return inbox.receive(until)
        heartbeat.tick_idle()
        next_tick = now + IDLE_TICK_SECONDS
        messages = inbox.receive(next_tick if until is None else min(until, next_tick))
        if messages is None or messages or (until is not None and until <= next_tick):
            return messages


def _take_in(engine: BatchEngine, messages: Sequence[ToEngine], now: float) -> None:
    for message in messages:
        engine.take(message, now)


def _run(
    engine: BatchEngine, batch: Batch, heartbeat: HeartbeatWriter, clock: Callable[[], float]
) -> BatchResult:
    heartbeat.begin(engine.predicted_seconds(batch))
    result = engine.run(batch, clock, heartbeat.tick)
    heartbeat.end()
    return result


def _post_report(engine: BatchEngine, post: Callable[[Settled], None]) -> None:
    settled = engine.settled()
    if settled is not None:
        post(settled)
