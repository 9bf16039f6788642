"""`ResponseStream`: submits the prompts of a call, and turns the engine's events into chunks of text."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generate,
    Generated,
    Interrupted,
    PromptScored,
    TokensEmitted,
    Usage,
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
from penstock_runtime.serving.generation.handover.relay import (
    TERMINATING,
    HandOver,
    Interruption,
    Relay,
)
from penstock_runtime.serving.generation.loaded_model import Serving
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.generation.request import GenerationCall, Prompt

CHOICE_BYTES: Final = 4096
"""Memory of one choice, here and in the engine, without its tokens; measured: 2,300, and its parts of a chat."""
ID_BYTES: Final = 8
"""Memory of one prompt token in each choice: the ids themselves are shared."""


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
        serving: Serving,
        handover: HandOver | None = None,
    ) -> None:
        """`tickets` are the prompts' own, in order; without `handover` an interrupted answer fails."""
        self._call = call
        self._tickets = tuple(tickets)
        self._admission = admission
        self._mailbox = Mailbox(admission.memory.unread_tokens, call.choices)
        self._first_of = {ticket.id: place * call.n for place, ticket in enumerate(tickets)}
        self._open = set(self._first_of)
        self._handover = handover
        self._relays: dict[str, Relay] = {}
        self._scored: set[str] = set()
        """Prompts whose log-probabilities have arrived."""
        vocabulary = serving.tokenizer.vocabulary
        self.choices = [
            Choice(index, call.prompts[index // call.n], call, vocabulary, serving.own_ends)
            for index in range(call.choices)
        ]
        self.first_seconds: float | None = None
        """Time from arrival to the first token."""
        self._failure: tuple[Failed | Expired | Cancelled, str | None] | None = None
        """Arguments of the `GenerationError` that is raised once the chunks before it are returned.

        Not the error: in a cycle through its traceback, it would keep this answer.
        """
        self.outcome: RequestOutcome | None = None
        """None: it has not ended."""
        self.cost = TokenUsage(prompt_tokens=sum(len(prompt.ids) for prompt in call.prompts))

    def begin(self) -> None:
        """Submit every prompt.

        Raises:
            NotServing: the pod stopped serving in the meantime.
            MemoryFull: its choices need more memory than is free.
        """
        for prompt, ticket in zip(self._call.prompts, self._tickets, strict=True):
            self._admission.memory.hold_more(ticket, self._call.n * choice_bytes(prompt))
        for place, ticket in enumerate(self._tickets):
            self._admission.begin(ticket, generate(self._call, place, ticket), self._mailbox)

    def close(self) -> None:
        """Release unread tokens, and what is generated for this answer on other pods."""
        self._mailbox.drop()
        for relay in self._relays.values():
            relay.cancel()

    def hold(self, more_bytes: int) -> None:
        """Count memory that the answer takes until it is sent.

        Raises:
            MemoryFull, TooLarge: as `MemoryBudget.grow`.
        """
        self._admission.memory.grow(self._tickets[0], more_bytes)

    @property
    def done(self) -> bool:
        """Whether every prompt has ended well."""
        return not self._open

    async def next(self, seconds: float) -> list[Chunk]:
        """Return the new chunks of one turn of the event loop; none after `seconds` without an event, and possibly at the end.

        Raises:
            GenerationError: a prompt did not complete; the caller abandons the others.
        """
        if self._failure is not None:
            raise GenerationError(*self._failure)
        events = await self._mailbox.take(seconds)
        if self._mailbox.dropped:
            raise GenerationError(Cancelled(), None)
        if self.first_seconds is None and any(isinstance(event, TokensEmitted) for event in events):
            self.first_seconds = self._admission.now() - self._tickets[0].arrived
        pieces = [piece for event in events for piece in self._take(event)]
        self.cost.completion_tokens = sum(choice.tokens for choice in self.choices)
        if self._failure is not None and not pieces:
            raise GenerationError(*self._failure)
        return pieces

    def _take(self, event: Event) -> Iterator[Chunk]:
        match event:
            case PromptScored():
                self._scored.add(event.id)
                yield Chunk(self._first_of[event.id], scored=event.logprobs)
            case TokensEmitted():
                choice = self._choice(event)
                piece = choice.emitted(event)
                if piece is not None:
                    yield piece
                    if piece.finish is not None:
                        self._stop(event)
            case ChoiceFinished():
                piece = self._choice(event).ended(event)
                if piece is not None:
                    yield piece
            case Ended():
                self._end(event)

    def _stop(self, event: TokensEmitted) -> None:
        relay = self._relays.get(event.id)
        if relay is None:
            self._admission.stop(event.id, event.choice)
        else:
            relay.stop(event.choice)

    def _hand_over(self, name: str, usage: Usage) -> None:
        """Let another pod continue a prompt; one whose log-probabilities are missing cannot be: they come at its beginning.

        A prompt of one token has none.
        """
        first, call = self._first_of[name], self._call
        place = first // call.n
        ticket = self._tickets[place]
        prompt = call.prompts[place]
        scores = prompt.params.prompt_logprobs is not None and len(prompt.ids) > 1
        if self._handover is None or (scores and name not in self._scored):
            self._admission.deliver_elsewhere(Ended(name, TERMINATING))
            return
        deadline = ticket.deadline(call.timeout_seconds)
        outputs = {
            choice.index - first: list(choice.ids)
            for choice in self.choices[first : first + call.n]
            if not choice.finished
        }
        interruption = Interruption(name, call, place, ticket.arrived, deadline, usage)
        self._relays[name] = self._handover.begin(
            interruption, outputs, self._admission.deliver_elsewhere
        )

    def _end(self, event: Ended) -> None:
        match event.end:
            case Interrupted(usage=usage):
                self._hand_over(event.id, usage)
            case Generated(usage=usage):
                self._complete(event.id, usage)
            case _:
                self._fail(event.end)

    def _complete(self, name: str, usage: Usage) -> None:
        self._open.discard(name)
        if self.done:
            self.outcome = RequestOutcome.COMPLETED
        self.cost.cached_tokens += usage.cached_tokens
        self.cost.queue_seconds = max(self.cost.queue_seconds, usage.queue_seconds)

    def _fail(self, end: Failed | Expired | Cancelled) -> None:
        failed = isinstance(end, Failed)
        self.outcome = RequestOutcome.FAILED if failed else RequestOutcome(type(end).__name__)
        shape = self._call.shape if isinstance(end, GrammarUnenforceable) else None
        self._failure = end, shape.field if shape else None

    def _choice(self, event: TokensEmitted | ChoiceFinished) -> Choice:
        return self.choices[self._first_of[event.id] + event.choice]


def choice_bytes(prompt: Prompt) -> int:
    """Return the memory of one choice of `prompt` without its output."""
    return CHOICE_BYTES + ID_BYTES * len(prompt.ids)


def generate(call: GenerationCall, place: int, ticket: Ticket) -> Generate:
    """Return the message that submits prompt `place` of `call`."""
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
