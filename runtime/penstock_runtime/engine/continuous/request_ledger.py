"""`GenerationLedger`: the pending requests of a generation engine and their events; every request ends exactly once."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    FinishReason,
    Generate,
    Generated,
    Interrupted,
    PromptScored,
    Resumption,
    TokensEmitted,
    Usage,
)
from penstock_runtime.engine.continuous.prompt_scores import PromptScores
from penstock_runtime.engine.continuous.sequence import RequestSpec, SampledToken, Sequence
from penstock_runtime.request import Cancelled, Expired, Failed


@dataclass(slots=True)
class _LedgerEntry:
    sequences: dict[int, Sequence]
    """By choice."""
    unfinished: set[int] = field(default_factory=set)
    """Choices."""


class GenerationLedger:
    """Opens and ends requests, and collects the events of a step in order."""

    def __init__(self, on_leave: Callable[[Sequence], None]) -> None:
        """`on_leave` is called with each sequence that finishes, or whose request ends."""
        self._on_leave = on_leave
        self._pending: dict[str, _LedgerEntry] = {}
        self._live: set[int] = set()
        """Uids of the unfinished choices of pending requests, looked up for every token."""
        self._events: list[Event] = []
        self._uids = count()

    def open(self, message: Generate) -> list[Sequence]:
        """Return the sequences of a new request, one per choice, or per choice to continue.

        Raises:
            ValueError: a request with this id is pending.
        """
        if message.id in self._pending:
            raise ValueError(f"request id '{message.id}' is already pending: ids must be unique")
        spec = _spec(message)
        sequences = {}
        for begun in message.resumed or [Resumption(choice, ()) for choice in range(message.n)]:
            sequence = Sequence(next(self._uids), spec, begun.choice, list(message.prompt))
            sequence.resume(begun.tokens)
            sequences[begun.choice] = sequence
        self._pending[message.id] = _LedgerEntry(sequences, set(sequences))
        self._live.update(sequence.uid for sequence in sequences.values())
        return list(sequences.values())

    def pending(self) -> list[str]:
        """Return the ids of pending requests."""
        return list(self._pending)

    def choices(self) -> Iterator[Sequence]:
        """Yield every choice of pending requests, finished or not."""
        for entry in self._pending.values():
            yield from entry.sequences.values()

    def holds(self, sequence: Sequence) -> bool:
        """Return whether the choice is unfinished and its request pending."""
        return sequence.uid in self._live

    def sequence(self, name: str, choice: int) -> Sequence | None:
        """Return an unfinished choice, or None."""
        entry = self._pending.get(name)
        return entry.sequences[choice] if entry and choice in entry.unfinished else None

    def emit(self, sequence: Sequence, sampled: SampledToken) -> None:
        """Add the event of a sampled token."""
        logprobs = () if sampled.logprob is None else (sampled.logprob,)
        self._events.append(
            TokensEmitted(sequence.request.id, sequence.choice, (sampled.token,), logprobs)
        )

    def emit_scores(self, name: str, parts: list[PromptScores]) -> None:
        """Add the event of the prompt's log-probabilities."""
        self._events.append(PromptScored(name, PromptScores.joined(parts)))

    def finish(self, sequence: Sequence, now: float) -> None:
        """Finish a choice; its request ends with the last choice."""
        self._on_leave(sequence)
        name, entry = sequence.request.id, self._pending[sequence.request.id]
        reason = sequence.finished or FinishReason.STOP
        entry.unfinished.discard(sequence.choice)
        self._live.discard(sequence.uid)
        self._events.append(ChoiceFinished(name, sequence.choice, reason, sequence.stop_id))
        if not entry.unfinished:
            del self._pending[name]
            self._events.append(Ended(name, Generated(_usage(entry, now))))

    def interrupt(self, name: str, now: float) -> None:
        """End a pending request that another pod may continue."""
        self.end(name, Interrupted(_usage(self._pending[name], now)))

    def end(self, name: str, end: Interrupted | Failed | Expired | Cancelled) -> None:
        """End a pending request early, with its unfinished choices; an id that is not pending is ignored."""
        entry = self._pending.pop(name, None)
        if entry is None:
            return
        self._events.append(Ended(name, end))
        for choice in sorted(entry.unfinished):
            self._live.discard(entry.sequences[choice].uid)
            self._on_leave(entry.sequences[choice])

    def collect(self) -> tuple[Event, ...]:
        """Return the events since the last call."""
        events, self._events = tuple(self._events), []
        return events


def _spec(message: Generate) -> RequestSpec:
    penalized = message.params.repetition_penalty != 1.0
    return RequestSpec(
        id=message.id,
        prompt_tokens=len(message.prompt),
        params=message.params,
        seed=message.params.seed or 0,
        arrived=message.arrived,
        deadline=message.deadline,
        priority=message.priority,
        tenant=message.tenant,
        salt=message.salt,
        prompt_ids=np.unique(np.array(message.prompt, np.int64)) if penalized else None,
    )


def _usage(entry: _LedgerEntry, now: float) -> Usage:
    sequences = list(entry.sequences.values())
    first = sequences[0]
    starts = [s.stats.first_step_at for s in sequences if s.stats.first_step_at is not None]
    began = min(starts, default=now)
    return Usage(
        prompt_tokens=first.request.prompt_tokens,
        completion_tokens=sum(s.output_tokens + (s.stop_id is not None) for s in sequences),
        cached_tokens=first.stats.cached_tokens,
        queue_seconds=began - first.request.arrived,
        preemptions=sum(s.stats.preemptions for s in sequences),
    )
