"""The book of generations: as `admission.Admission`, but an answer comes in many pieces."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import assert_never

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generate,
    Generated,
    PromptScored,
    Stop,
    ToGeneration,
    TokensEmitted,
    Usage,
)
from penstock_runtime.engine.messages import Cancel, ToEngine
from penstock_runtime.errors import NotServing, QueueFull
from penstock_runtime.request import Cancelled, Expired, Failed, RequestOutcome
from penstock_runtime.serving.admission import Admission
from penstock_runtime.serving.counters import Counters
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.health import Health, Stage
from penstock_runtime.serving.limits import LiveLimits
from penstock_runtime.serving.ticket import Ticket
from penstock_runtime.serving.wait_estimate import LEAST_RETRY_SECONDS, MOST_RETRY_SECONDS

_INTERVAL_WEIGHT = 0.1
"""Of the newest interval between two ends in their running mean."""


@dataclass(slots=True)
class _PendingGeneration:
    """A submitted request that has not ended."""

    ticket: Ticket
    choices: int
    mailbox: Mailbox
    first_token_at: float | None = None
    tokens: int = 0


class GenerationAdmission(Admission):
    """Owns the credits, and the book of submitted generations."""

    def __init__(  # noqa: PLR0913 - every owner whose state a request touches, by name
        self,
        send: Callable[[ToGeneration], None],
        live: LiveLimits,
        health: Health,
        counters: Counters,
        tokens: GenerationCounters,
        *,
        now: Callable[[], float],
        most_bytes: int,
    ) -> None:
        super().__init__(_one_shot, live, health, counters, now=now, most_bytes=most_bytes)
        self._send_generation = send
        self._tokens = tokens
        self._generations: dict[str, _PendingGeneration] = {}
        self._ended_at: float | None = None
        """When the last one completed; None: not since the book was empty, and idle time is no interval."""
        self._interval_seconds = 0.0

    @contextmanager
    def receive_prompts(self, first: Ticket, count: int) -> Iterator[Sequence[Ticket]]:
        """Hold a ticket a prompt of the body that came as `first`; what has not ended at the block's end is cancelled.

        Raises:
            QueueFull: together they are more than the queue bears, so none of them begins.
        """
        self.count_rows(first, count)
        if count > 1:
            self._check_places(count)
        seconds_in_socket = self._now() - first.arrived
        with ExitStack() as stack:
            more = [stack.enter_context(self.receive(seconds_in_socket)) for _ in range(count - 1)]
            for one in more:
                one.rows_counted = True
            try:
                yield [first, *more]
            finally:
                for one in (first, *more):
                    self.abandon(one)

    def _check_places(self, prompts: int) -> None:
        depth = self._live.accepted.max_queue_depth
        own = 1  # the body's
        free = max(depth - self._waiting() - self._placed + own, 0)
        if prompts > free:
            raise QueueFull(
                f"of the {depth} places that maxQueueDepth allows {free} are free, and {prompts} prompts"
                " need one each: send fewer together, or try again later",
                field="prompt",
                retry_after_seconds=self.retry_after_seconds(),
            )

    def begin(self, ticket: Ticket, generate: Generate, mailbox: Mailbox) -> None:
        """Hand `generate` to the engine; all that it says of it goes to `mailbox`, `Ended` as the last.

        Raises:
            NotServing: the pod stopped serving while the body was read.
        """
        if self._health.stage in (Stage.DRAINING, Stage.DEAD):
            raise NotServing("Draining", "this pod is stopping: try again, another one answers")
        self._give_place_back(ticket)
        if not self._generations:
            self._ended_at = None
            self._owing_since = self._now()
        self._generations[generate.id] = _PendingGeneration(ticket, generate.n, mailbox)
        self._send_generation(generate)

    def now(self) -> float:
        """Return the moment, of the clock that tickets are stamped by."""
        return self._now()

    def stop(self, id: str, choice: int) -> None:
        """Tell the engine that a choice has met its stop string."""
        if id in self._generations:
            self._send_generation(Stop(((id, choice),)))

    def abandon(self, ticket: Ticket) -> None:
        """Cancel what `ticket` asked for if it has not ended: nobody reads it any more."""
        if ticket.id in self._generations:
            self.cancel(ticket)

    def deliver_events(self, events: Iterable[Event]) -> None:
        """Take what a step told; of requests whose clients went away there is nobody to tell."""
        for event in events:
            held = self._generations.get(event.id)
            if held is None:
                continue
            match event:
                case TokensEmitted():
                    self._note_tokens(held, len(event.tokens))
                case Ended():
                    self._note_end(held, event)
                case ChoiceFinished() | PromptScored():
                    pass
                case _:
                    assert_never(event)
            if not held.mailbox.put(event):
                self._tokens.slow_readers += 1
                held.mailbox.put(Ended(event.id, Cancelled()))
                self.cancel(held.ticket)

    def fail_all(self, failed: Failed) -> None:
        """End everything that is still held, because nothing else will."""
        self.deliver_events([Ended(one, failed) for one in list(self._generations)])

    def _submitted(self) -> int:
        return len(self._generations)

    def retry_after_seconds(self) -> float:
        """Return when the queue of now will have ended, at the rate at which requests end."""
        wait = self._waiting() * self._interval_seconds
        return min(max(wait, LEAST_RETRY_SECONDS), MOST_RETRY_SECONDS)

    def _note_tokens(self, held: _PendingGeneration, tokens: int) -> None:
        self._tokens.generated_tokens += tokens
        held.tokens += tokens
        if held.first_token_at is None:
            held.first_token_at = self._now()

    def _note_end(self, held: _PendingGeneration, event: Ended) -> None:
        del self._generations[event.id]
        match event.end:
            case Generated(usage=usage):
                self._note_completed(held, usage)
                self._leave(held.ticket, RequestOutcome.COMPLETED)
            case Failed():
                self._leave(held.ticket, RequestOutcome.FAILED)
            case Expired():
                self._leave(held.ticket, RequestOutcome.EXPIRED)
            case Cancelled():
                self._leave(held.ticket, RequestOutcome.CANCELLED)
            case _:
                assert_never(event.end)

    def _note_completed(self, held: _PendingGeneration, usage: Usage) -> None:
        now, arrived = self._now(), held.ticket.arrived
        first = held.first_token_at if held.first_token_at is not None else now
        self._counters.request_seconds.observe(now - arrived)
        self._counters.queue_seconds.observe(usage.queue_seconds)
        self._tokens.first_token_seconds.observe(first - arrived)
        each = held.tokens / held.choices
        if each > 1:
            self._tokens.token_seconds.observe((now - first) / (each - 1))
        self._tokens.prompt_tokens += usage.prompt_tokens
        self._tokens.cached_prompt_tokens += usage.cached_tokens
        if self._ended_at is not None:
            newest = now - self._ended_at
            self._interval_seconds += _INTERVAL_WEIGHT * (newest - self._interval_seconds)
        self._ended_at = now

    def cancel(self, ticket: Ticket) -> None:
        """Free the place of a request whose client went away."""
        if self._generations.pop(ticket.id, None) is not None:
            self._send_generation(Cancel((ticket.id,)))
        self._leave(ticket, RequestOutcome.CANCELLED)


def _one_shot(message: ToEngine) -> None:
    """Refuse: no engine behind this book takes one-shot requests."""
    raise TypeError(f"{type(message).__name__} is for a one-shot engine")
