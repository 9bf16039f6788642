"""`ResponseStream`: submits the prompts of a call, and turns the engine's events into chunks of text."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generate,
    Generated,
    PromptScored,
    TokensEmitted,
)
from penstock_runtime.errors import PenstockError
from penstock_runtime.request import (
    Cancelled,
    Expired,
    Failed,
    GrammarUnenforceable,
    RequestOutcome,
)
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.generation.admission import GenerationAdmission
from penstock_runtime.serving.generation.choice import Choice, Chunk
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.text.vocabulary import Vocabulary


class GenerationError(PenstockError):
    """The answer was ended by the engine, the drain, a deadline or a slow reader; `end` names the cause."""

    def __init__(self, end: Failed | Expired | Cancelled, field: str | None = None) -> None:
        """`field` is the field of the body that caused the error."""
        super().__init__(type(end).__name__)
        self.end = end
        self.field = field


@dataclass(slots=True)
class TokenUsage:
    """Token usage of a call, over all prompts."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    queue_seconds: float = 0.0
    """Longest queue time of its prompts."""


class ResponseStream:
    """The answer to one call; read by the task that writes to the client."""

    def __init__(
        self,
        call: GenerationCall,
        tickets: Sequence[Ticket],
        admission: GenerationAdmission,
        vocabulary: Vocabulary,
        own_ends: frozenset[int],
    ) -> None:
        """`tickets` are the prompts' own, in order."""
        self._call = call
        self._tickets = tuple(tickets)
        self._admission = admission
        self._mailbox = Mailbox()
        self._first_of = {ticket.id: place * call.n for place, ticket in enumerate(tickets)}
        self._open = set(self._first_of)
        self.choices = [
            Choice(index, call.prompts[index // call.n], call, vocabulary, own_ends)
            for index in range(call.choices)
        ]
        self.first_seconds: float | None = None
        """Time from arrival to the first token."""
        self.outcome: RequestOutcome | None = None
        """None: it has not ended."""
        self.cost = TokenUsage(prompt_tokens=sum(len(prompt.ids) for prompt in call.prompts))

    def begin(self) -> None:
        """Submit every prompt.

        Raises:
            NotServing: the pod stopped serving in the meantime.
        """
        for place, ticket in enumerate(self._tickets):
            self._admission.begin(ticket, _generate(self._call, place, ticket), self._mailbox)

    @property
    def done(self) -> bool:
        """Whether every prompt has ended well."""
        return not self._open

    async def next(self, seconds: float) -> list[Chunk]:
        """Return new chunks; none after `seconds` without an event, and possibly at the end.

        Raises:
            GenerationError: a prompt did not complete; the caller abandons the others.
        """
        events = await self._mailbox.take(seconds)
        if self.first_seconds is None and any(isinstance(event, TokensEmitted) for event in events):
            self.first_seconds = self._admission.now() - self._tickets[0].arrived
        pieces = [piece for event in events for piece in self._take(event)]
        self.cost.completion_tokens = sum(choice.tokens for choice in self.choices)
        return pieces

    def _take(self, event: Event) -> Iterator[Chunk]:
        match event:
            case PromptScored():
                yield Chunk(self._first_of[event.id], scored=event.logprobs)
            case TokensEmitted():
                choice = self._choice(event)
                piece = choice.emitted(event)
                if piece is not None:
                    yield piece
                    if piece.finish is not None:
                        self._admission.stop(event.id, event.choice)
            case ChoiceFinished():
                piece = self._choice(event).ended(event)
                if piece is not None:
                    yield piece
            case Ended():
                self._end(event)

    def _end(self, event: Ended) -> None:
        if not isinstance(event.end, Generated):
            failed = isinstance(event.end, Failed)
            self.outcome = (
                RequestOutcome.FAILED if failed else RequestOutcome(type(event.end).__name__)
            )
            shape = self._call.shape if isinstance(event.end, GrammarUnenforceable) else None
            raise GenerationError(event.end, shape.field if shape else None)
        self._open.discard(event.id)
        if self.done:
            self.outcome = RequestOutcome.COMPLETED
        self.cost.cached_tokens += event.end.usage.cached_tokens
        self.cost.queue_seconds = max(self.cost.queue_seconds, event.end.usage.queue_seconds)

    def _choice(self, event: TokensEmitted | ChoiceFinished) -> Choice:
        return self.choices[self._first_of[event.id] + event.choice]


def _generate(call: GenerationCall, place: int, ticket: Ticket) -> Generate:
    prompt = call.prompts[place]
    deadline = ticket.deadline(call.timeout_seconds)
    return Generate(
        id=ticket.id,
        prompt=prompt.ids,
        params=prompt.params,
        arrived=ticket.arrived,
        n=call.n,
        deadline=deadline,
        priority=call.priority,
        tenant=call.tenant,
        salt=call.salt,
        grammar=call.shape.address if call.shape else None,
    )


def draw_seed() -> int:
    """Return a seed for a prompt without one; drawn once, so that a preempted answer continues unchanged."""
    return random.SystemRandom().getrandbits(63)
