"""`GenerationAdmission`: admission of prompts to a generation engine, which answers each in many events."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, assert_never

from typing_extensions import override

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generate,
    Generated,
    Interrupted,
    PromptScored,
    Stop,
    ToGeneration,
    TokensEmitted,
    Usage,
)
from penstock_runtime.engine.messages import Cancel
from penstock_runtime.engine.queue.disciplines import is_batch_work
from penstock_runtime.errors import (
    BadInput,
    BatchWorkWaits,
    NotServing,
    QueueFull,
    RequestRejected,
)
from penstock_runtime.request import (
    Cancelled,
    Expired,
    Failed,
    GrammarUnenforceable,
    RequestOutcome,
)
from penstock_runtime.serving.admission.base import Admission
from penstock_runtime.serving.admission.retry_after import retry_after_seconds
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.generation.counters import GenerationCounters
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.state import ServingState

BATCH_QUEUE_SHARE: Final = 0.25
"""Share of the queue from which on it takes no batch work: an engine that generates displaces nothing from its queue."""
MAX_BATCH_QUEUE_SHARE: Final = 0.5
"""Share of the queue to which batch work fills it at most, by a body with several prompts."""
_INTERVAL_WEIGHT = 0.1
"""Weight of the newest interval between two completions in their running mean."""


_OUTCOMES: Final = {
    Generated: RequestOutcome.COMPLETED,
    Failed: RequestOutcome.FAILED,
    GrammarUnenforceable: RequestOutcome.FAILED,
    Expired: RequestOutcome.EXPIRED,
    Cancelled: RequestOutcome.CANCELLED,
}


@dataclass(slots=True)
class _PendingGeneration:
    """A submitted prompt that has not ended."""

    ticket: Ticket
    choices: int
    """Those generated here; another pod may have finished some."""
    mailbox: Mailbox
    first_token_at: float | None = None
    tokens: int = 0


class GenerationAdmission(Admission):
    """Submits prompts to a generation engine, and delivers its events."""

    def __init__(
        self,
        send: Callable[[ToGeneration], None],
        state: ServingState,
        tokens: GenerationCounters,
        max_bytes: int,
    ) -> None:
        super().__init__(state, max_bytes)
        self._send = send
        self.tokens = tokens
        self._pending: dict[str, _PendingGeneration] = {}
        self._interrupted: dict[str, _PendingGeneration] = {}
        """Prompts that the engine has left to other pods, until their end is delivered."""
        self._since = 0.0
        """Time at which a prompt was submitted to an idle engine."""
        self._completed_at: float | None = None
        """Time of the last completion since the engine was idle; None without one, because idle time does not count as an interval."""
        self._interval_seconds = 0.0
        """Running mean of the time between completions."""

    @contextmanager
    def receive_prompts(
        self, first: Ticket, count: int, priority: int
    ) -> Iterator[Sequence[Ticket]]:
        """Yield one ticket per prompt of the body of `first`; prompts that have not ended at the block's end are cancelled.

        Raises:
            QueueFull: the queue has too few slots for all of them; none is submitted.
            BatchWorkWaits: the body is batch work, which has its share of the queue.
            BadInput: the body is batch work with more prompts than ever get a place.
        """
        self.count_rows(first, count, priority)
        if is_batch_work(priority):
            self._check_batch_share(count)
        if count > 1:
            self._check_slots(count)
        age_seconds = self._now() - first.arrived
        with ExitStack() as stack:
            more = [stack.enter_context(self.receive(age_seconds)) for _ in range(count - 1)]
            for ticket in more:
                ticket.rows_counted = True
                ticket.batch_work = first.batch_work
            try:
                yield [first, *more]
            except RequestRejected as rejection:
                for ticket in (first, *more):
                    self.reject(ticket, rejection)
                raise
            finally:
                for ticket in (first, *more):
                    self.abandon(ticket)

    def _check_slots(self, prompts: int) -> None:
        depth = self._live.accepted.max_queue_depth
        own = 1  # the body's
        free = max(depth - self.waiting() - self.slots.reserved + own, 0)
        if prompts > free:
            raise QueueFull(
                f"of the {depth} places that maxQueueDepth allows {free} are free, and {prompts} prompts"
                " need one each: send fewer together, or try again later",
                field="prompt",
                retry_after_seconds=self.retry_after_seconds(),
            )

    def begin(self, ticket: Ticket, generate: Generate, mailbox: Mailbox) -> None:
        """Submit `generate`; its events go to `mailbox`, `Ended` as the last.

        Raises:
            NotServing: the pod stopped serving while the body was read.
        """
        if self._health.rejecting:
            raise NotServing(
                "Draining", "this pod is terminating: retry, and another pod will respond"
            )
        self.slots.release(ticket)
        if not self._pending:
            self._completed_at = None
            self._since = self._now()
        choices = len(generate.resumed) or generate.n
        self._pending[generate.id] = _PendingGeneration(ticket, choices, mailbox)
        self._send(generate)

    def _check_batch_share(self, prompts: int) -> None:
        depth, waiting = self._live.accepted.max_queue_depth, self.waiting()
        share = max(1, int(depth * BATCH_QUEUE_SHARE))
        most = max(1, int(depth * MAX_BATCH_QUEUE_SHARE) - share + 1)
        if prompts > most:
            raise BadInput(
                f"{prompts} prompts: a body of batch work may have {most} where maxQueueDepth is {depth}: send fewer together",
                field="prompt",
            )
        if waiting >= share:
            raise BatchWorkWaits(
                f"{waiting} requests wait, and batch work is accepted while fewer than {share} wait: try again later",
                retry_after_seconds=self.retry_after_seconds(),
            )

    def now(self) -> float:
        """Return the time of the clock that stamps tickets."""
        return self._now()

    def stop(self, id: str, choice: int) -> None:
        """Stop a choice that has met its stop string."""
        if id in self._pending:
            self._send(Stop(((id, choice),)))

    def abandon(self, ticket: Ticket) -> None:
        """Cancel the prompt of `ticket` if it has not ended."""
        if ticket.id in self._pending or ticket.id in self._interrupted:
            self.cancel(ticket)

    def deliver_events(self, events: Iterable[Event]) -> None:
        """Deliver the events of a step; those of cancelled prompts are dropped."""
        for event in events:
            pending = self._pending.get(event.id)
            if pending is None:
                continue
            match event:
                case TokensEmitted():
                    self._record_tokens(pending, len(event.tokens))
                case Ended():
                    self._record_end(pending, event)
                case ChoiceFinished() | PromptScored():
                    pass
                case _:
                    assert_never(event)
            self._put(pending, event)

    def deliver_elsewhere(self, event: Event) -> bool:
        """Deliver an event of an interrupted prompt, which another pod continues; return False if it has ended here."""
        pending = self._interrupted.get(event.id)
        if pending is None:
            return False
        if isinstance(event, Ended):
            del self._interrupted[event.id]
            outcome = _OUTCOMES[type(event.end)]
            if outcome is RequestOutcome.COMPLETED:
                outcome = RequestOutcome.HANDED_OVER
            self._count_end(pending.ticket, outcome)
        return self._put(pending, event)

    def _put(self, pending: _PendingGeneration, event: Event) -> bool:
        """Put an event into the mailbox; return False if its reader is too slow, which cancels the prompt."""
        if pending.mailbox.put(event):
            return True
        self.tokens.slow_readers += 1
        pending.mailbox.put(Ended(event.id, Cancelled()))
        self.cancel(pending.ticket)
        return False

    def _record_tokens(self, pending: _PendingGeneration, tokens: int) -> None:
        self.tokens.generated_tokens += tokens
        pending.tokens += tokens
        self._counters.of(batch_work=pending.ticket.batch_work).served += tokens
        if pending.first_token_at is None:
            pending.first_token_at = self._now()

    def _record_end(self, pending: _PendingGeneration, event: Ended) -> None:
        del self._pending[event.id]
        if isinstance(event.end, Interrupted):
            self._interrupted[event.id] = pending
            return
        if isinstance(event.end, Generated):
            self._record_completion(pending, event.end.usage)
        self._count_end(pending.ticket, _OUTCOMES[type(event.end)])

    def _record_completion(self, pending: _PendingGeneration, usage: Usage) -> None:
        now, arrived, tokens = self._now(), pending.ticket.arrived, self.tokens
        first = pending.first_token_at if pending.first_token_at is not None else now
        if not pending.ticket.batch_work:  # its latencies are of no objective
            self._counters.request_seconds.observe(now - arrived)
            self._counters.queue_seconds.observe(usage.queue_seconds)
            tokens.first_token_seconds.observe(first - arrived)
            tokens_per_choice = pending.tokens / pending.choices
            if tokens_per_choice > 1:
                tokens.token_seconds.observe((now - first) / (tokens_per_choice - 1))
        tokens.prompt_tokens += usage.prompt_tokens
        tokens.cached_prompt_tokens += usage.cached_tokens
        if self._completed_at is not None:
            newest = now - self._completed_at
            self._interval_seconds += _INTERVAL_WEIGHT * (newest - self._interval_seconds)
        self._completed_at = now

    @override
    def submitted(self) -> int:
        return len(self._pending)

    @override
    def owing_since(self) -> float | None:
        return self._since if self._pending else None

    @override
    def fail_all(self, failed: Failed) -> None:
        self.deliver_events([Ended(name, failed) for name in list(self._pending)])

    @override
    def elsewhere(self) -> int:
        return len(self._interrupted)

    @override
    def fail_elsewhere(self, failed: Failed) -> None:
        for name in list(self._interrupted):
            self.deliver_elsewhere(Ended(name, failed))

    @override
    def retry_after_seconds(self) -> float:
        """Return the predicted time until the waiting prompts end, at the rate of recent completions."""
        return retry_after_seconds(self.waiting() * self._interval_seconds)

    @override
    def _withdraw(self, id: str) -> None:
        self._interrupted.pop(id, None)
        if self._pending.pop(id, None) is not None:
            self._send(Cancel((id,)))

    @override
    def _waiting_below(self, priority: int) -> int:
        return 0  # the generation engine preempts; nothing is displaced from its queue

    @override
    def _batch_work_waiting(self) -> int:
        report = self._live.report
        running = report.running_batch_work if report else 0
        batch_work = sum(pending.ticket.batch_work for pending in self._pending.values())
        return max(0, batch_work - running)
