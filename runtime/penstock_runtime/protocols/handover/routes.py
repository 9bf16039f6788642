"""The route on which this pod continues a generation of another pod of its pool (docs/design/handover.md).

A continuation is the request of its client: it carries the client's key and passes the same checks as a body of
`/v1/completions`, so a client that sends one gets nothing that it could not request there.
"""

import asyncio
import secrets
from dataclasses import replace
from typing import Final

from aiohttp import hdrs, web

from penstock_api import names
from penstock_runtime.engine.continuous.grammar.spec import GrammarSpec
from penstock_runtime.engine.continuous.messages import (
    ChoiceFinished,
    Ended,
    Event,
    Generate,
    Generated,
    GenerationEnd,
    Interrupted,
    Resumption,
    TokensEmitted,
)
from penstock_runtime.errors import OtherModel
from penstock_runtime.protocols.handover.body import ContinuationBody
from penstock_runtime.protocols.open_inference import bodies
from penstock_runtime.protocols.openai.handler import GenerationHandler
from penstock_runtime.protocols.openai.sampling import (
    SamplingRequest,
    Terms,
    make_call,
    make_prompt,
    sampling,
)
from penstock_runtime.request import Expired, Failed, GrammarUnenforceable
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.auth.callers import Caller
from penstock_runtime.serving.generation.client import GenerationPod
from penstock_runtime.serving.generation.handover import messages
from penstock_runtime.serving.generation.handover.peers import PING_SECONDS
from penstock_runtime.serving.generation.handover.relay import TERMINATING
from penstock_runtime.serving.generation.mailbox import Mailbox
from penstock_runtime.serving.generation.request import GenerationCall
from penstock_runtime.serving.generation.response_stream import ID_BYTES, choice_bytes, generate

MEDIA_TYPE: Final = "application/vnd.penstock.frames"


class TakeOver:
    """Continues generations that other pods cannot complete."""

    def __init__(self, pod: GenerationPod) -> None:
        self._pod = pod
        self._handler = GenerationHandler(pod)

    def routes(self) -> list[web.RouteDef]:
        """Return the route."""
        hold = {"expect_handler": bodies.postpone_continue}
        return [web.post(names.PATH_HANDOVER, self.take_over, **hold)]

    async def take_over(self, request: web.Request) -> web.StreamResponse:
        """Continue one generation; the answer has the events of its engine, in frames."""

        async def respond(
            ticket: Ticket, body: ContinuationBody, terms: Terms
        ) -> web.StreamResponse:
            async with self._handler.within(terms.timeout_seconds, ticket):
                call = await continued_call(body, terms)
            resumed = body.resumptions(terms.serving.info.vocabulary)
            return await self._continue(request, ticket, call, resumed)

        return await self._handler.receive(request, ContinuationBody, respond)

    async def _continue(
        self,
        request: web.Request,
        ticket: Ticket,
        call: GenerationCall,
        resumed: tuple[Resumption, ...],
    ) -> web.StreamResponse:
        """Continue a generation.

        Raises:
            MemoryFull, TooLarge: its choices need more memory than is free, or than all requests may hold.
            CancelledError: the other pod has left, as aiohttp or a write noticed.
        """
        pod = self._pod
        mailbox = Mailbox(pod.admission.memory.unread_tokens, len(resumed))
        output = sum(len(choice.tokens) for choice in resumed)
        size = len(resumed) * choice_bytes(call.prompts[0]) + ID_BYTES * output
        with pod.admission.receive_prompts(ticket, 1, call.priority):
            pod.admission.memory.hold_more(ticket, size)
            begun: Generate = replace(generate(call, 0, ticket), resumed=resumed)
            pod.admission.begin(ticket, begun, mailbox)
            pod.engine.tokens.taken_over += 1
            try:
                return await self._relay(request, mailbox)
            except ConnectionError as error:
                raise asyncio.CancelledError(str(error)) from error
            finally:
                mailbox.drop()

    async def _relay(self, request: web.Request, mailbox: Mailbox) -> web.StreamResponse:
        """Send the events of a generation until its end.

        Raises:
            ConnectionError: the other pod has left.
        """
        response = web.StreamResponse(headers={hdrs.CONTENT_TYPE: MEDIA_TYPE})
        response.force_close()
        await response.prepare(request)
        ended = False
        while not ended:
            events = await mailbox.take(PING_SECONDS)
            if mailbox.dropped:
                raise ConnectionError("the other pod reads too slowly")
            ended = self._settle(events)
            sent = [wire for event in events if (wire := on_wire(event)) is not None]
            await response.write(messages.encode_frame(sent))
        await response.write_eof()
        return response

    def _settle(self, events: list[Event]) -> bool:
        """Return whether the generation has ended; one that is interrupted here too goes back to its first pod."""
        end = next((event for event in events if isinstance(event, Ended)), None)
        if end is not None and isinstance(end.end, Interrupted):
            self._pod.admission.deliver_elsewhere(Ended(end.id, TERMINATING))
        return end is not None


async def continued_call(body: ContinuationBody, terms: Terms) -> GenerationCall:
    """Return the call that `body` continues.

    Raises:
        OtherModel: this pod has other weights, or computes in another type.
        BadInput: a field is invalid.
    """
    here = messages.model_identity(terms.serving.info)
    if body.identity != here:
        raise OtherModel(
            "another pod's generation needs the weights and the type of that pod, and this pod has others"
        )
    requested = SamplingRequest(body.max_tokens, logprobs=body.logprobs)
    params = sampling(body, terms, requested)
    terms.serving.encoder.check_ids(len(body.prompt), "prompt")
    prompt = make_prompt(body.prompt, "", params, terms, requested)
    call = _with_own_cache(make_call(body, (prompt,), terms), body.tenant, terms.caller)
    if body.grammar is None:
        return call
    spec = GrammarSpec(body.grammar.kind, body.grammar.text)
    return replace(call, shape=await terms.serving.compile(spec, "grammar", terms.resources))


def _with_own_cache(call: GenerationCall, tenant: str, caller: Caller) -> GenerationCall:
    """Return `call` with a prefix cache of its own, if this pod cannot verify that its client belongs to `tenant`."""
    return call if tenant == caller.tenant else replace(call, salt=secrets.token_hex(16))


def on_wire(event: Event) -> messages.WireEvent | None:
    """Return an event of the engine as the other pod reads it; None: it needs none."""
    match event:
        case TokensEmitted():
            return messages.Tokens(event.choice, event.tokens, event.logprobs)
        case ChoiceFinished():
            return messages.Finished(event.choice, event.reason, event.stop_id)
        case Ended():
            return _end(event.end)
    return None


def _end(end: GenerationEnd) -> messages.End:
    match end:
        case Generated():
            return messages.AllFinished()
        case GrammarUnenforceable(reason=reason):
            return messages.Unenforceable(reason)
        case Failed(reason=reason, retry_after_seconds=None):
            return messages.Broke(reason)
        case Failed(reason=reason):
            return messages.Unfinished(reason)
        case Expired():
            return messages.Overdue()
    return messages.Unfinished("this pod cannot complete it")
