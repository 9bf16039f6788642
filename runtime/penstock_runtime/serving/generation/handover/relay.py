"""`HandOver` and `Relay`: continue interrupted generations on other pods, and deliver their events here."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, assert_never

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generated,
    GenerationEnd,
    TokensEmitted,
    Usage,
)
from penstock_runtime.request import Expired, Failed, GrammarUnenforceable
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.handover.messages import (
    AllFinished,
    Broke,
    End,
    Finished,
    Overdue,
    Tokens,
    Unenforceable,
    Unfinished,
    continuation,
)
from penstock_runtime.serving.generation.handover.peers import NoPeer, PeerFailed, Peers
from penstock_runtime.serving.generation.handover.progress import Progress
from penstock_runtime.serving.generation.request import GenerationCall

log = logging.getLogger(__name__)

TERMINATING: Final = Failed("this pod is terminating: retry", 1.0)
Deliver = Callable[[Event], bool]
"""Delivers an event to the task that answers the client; False: no task reads it any more."""


@dataclass(frozen=True, slots=True)
class Interruption:
    """One prompt of a call whose generation was interrupted here."""

    id: str
    call: GenerationCall
    place: int
    """Its index among the prompts of the call."""
    arrived: float
    """On the pod's monotonic clock, as `deadline`."""
    deadline: float | None
    """Of the request."""
    usage: Usage
    """What it used here, which its answer reports."""


class HandOver:
    """Hands over the interrupted generations of one client's request, in the client's name."""

    def __init__(
        self,
        peers: Peers,
        headers: Mapping[str, str],
        identity: str,
        counters: GenerationCounters,
        now: Callable[[], float],
    ) -> None:
        """`headers` identify the client; `identity` is that of the model here."""
        self.peers = peers
        self.headers = headers
        self.identity = identity
        self.counters = counters
        self.now = now

    def begin(
        self, interruption: Interruption, outputs: dict[int, list[int]], deliver: Deliver
    ) -> "Relay":
        """Continue the choices that have `outputs` on another pod; its events go to `deliver`, `Ended` as the last."""
        self.counters.handed_over += 1
        return Relay(self, interruption, Progress(outputs, self.peers.absent_seconds), deliver)


class Relay:
    """One generation, from its interruption here to its end on other pods."""

    def __init__(
        self,
        handover: HandOver,
        interruption: Interruption,
        progress: Progress,
        deliver: Deliver,
    ) -> None:
        self._handover = handover
        self._interruption = interruption
        self._progress = progress
        self._deliver = deliver
        self._task: asyncio.Task[None] | None = asyncio.create_task(self._run())

    def stop(self, choice: int) -> None:
        """Stop a choice that has met its stop string; the other pod learns it when no choice is left."""
        self._progress.finish(choice)
        if self._progress.complete:
            self.cancel()
            self._end(Generated(self._interruption.usage))

    def cancel(self) -> None:
        """End the call to the other pod, which frees the generation there."""
        # the traceback of the task's exception has this relay: not to be kept in a cycle
        task, self._task = self._task, None
        if task is not None:
            task.cancel()

    async def _run(self) -> None:
        while not self._progress.complete:
            try:
                end = await self._attempted()
            except PeerFailed as failure:
                after = self._after(failure)
                pause = after if isinstance(after, float) else None
                log.warning(
                    "hand-over failed: %s",
                    failure,
                    extra={"id": self._interruption.id, "pause": pause},
                )
                if not isinstance(after, float):
                    self._end(after)
                    return
                await asyncio.sleep(after)
            else:
                self._end(end)
                return
        self._end(Generated(self._interruption.usage))

    def _after(self, failure: PeerFailed) -> float | Failed | Expired:
        """Return the pause before the next attempt, or the end of the generation."""
        it, now = self._interruption, self._handover.now()
        if it.deadline is not None and now >= it.deadline:
            return self._expired()
        no_peer = isinstance(failure, NoPeer)
        progress = self._progress
        pause = progress.pause_without_peer(now) if no_peer else progress.pause_after_failure()
        if pause is None:
            self._handover.counters.handovers_failed += 1
            return TERMINATING
        return pause if it.deadline is None else min(pause, it.deadline - now)

    async def _attempted(self) -> GenerationEnd:
        """Deliver the events of one attempt; return the end of the generation.

        Raises:
            PeerFailed: another attempt may complete it.
        """
        peers, headers = self._handover.peers, self._handover.headers
        async with aclosing(peers.events(self._body(), headers)) as turns:
            async for events in turns:
                for event in events:
                    if isinstance(event, Tokens | Finished):
                        self._take(event)
                    else:
                        return self._ending(event)
        raise PeerFailed("its connection ended before the generation")

    def _body(self) -> dict[str, object]:
        it, deadline = self._interruption, self._interruption.deadline
        left = None if deadline is None else deadline - self._handover.now()
        return continuation(
            it.call, it.place, self._progress.outputs, self._handover.identity, left
        )

    def _take(self, event: Tokens | Finished) -> None:
        if self._progress.take(event) and not self._deliver(_local(self._interruption.id, event)):
            self.cancel()

    def _ending(self, end: End) -> GenerationEnd:
        match end:
            case AllFinished():
                if not self._progress.complete:
                    raise PeerFailed("it ended before all of its choices")
                return Generated(self._interruption.usage)
            case Unfinished(reason):
                raise PeerFailed(reason)
            case Broke(reason):
                return Failed(reason)
            case Unenforceable(reason):
                return GrammarUnenforceable(reason)
            case Overdue():
                return self._expired()
            case _:
                assert_never(end)

    def _expired(self) -> Expired:
        """Return the end at the deadline: its time counts from the arrival here, not on another pod."""
        return Expired(self._handover.now() - self._interruption.arrived)

    def _end(self, end: GenerationEnd) -> None:
        self._deliver(Ended(self._interruption.id, end))


def _local(id: str, event: Tokens | Finished) -> Event:
    if isinstance(event, Finished):
        return ChoiceFinished(id, event.choice, event.reason, event.stop_id)
    return TokensEmitted(id, event.choice, event.tokens, event.logprobs)
