"""Answers the plain requests of one pod: the same admission, reader and replies as aiohttp's lane, in fewer steps."""

import asyncio
import logging
from typing import Any, Final, Protocol

from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS
from penstock_runtime.errors import DeadlineTooNear, Defect, QueueFull, RequestRejected
from penstock_runtime.http.backpressure import TOO_MANY_REQUESTS, ClientThrottle
from penstock_runtime.http.connection_age import AgingConnections
from penstock_runtime.http.fast_path.arrival_time import ArrivalClock
from penstock_runtime.http.fast_path.canned_rejections import CannedRejections
from penstock_runtime.http.fast_path.endpoint import DeferredCall, FastEndpoint
from penstock_runtime.http.fast_path.endpoints import endpoints_of
from penstock_runtime.http.fast_path.request_head import HeadParser, RequestHead, hinted_class
from penstock_runtime.http.fast_path.response import ResponseWriter
from penstock_runtime.protocols.common.access_log import CLIENT_GONE, AnswersOwed
from penstock_runtime.protocols.common.long_answers import is_long
from penstock_runtime.protocols.common.replies import Reply
from penstock_runtime.protocols.common.request_ids import RequestIds, trace_of
from penstock_runtime.protocols.open_inference.infer_response import InferBody
from penstock_runtime.request import Completed, End, RequestOutcome
from penstock_runtime.serving.pod import Pod

log = logging.getLogger(__name__)

DEFECT: Final = "a request met a defect"


class ClientConnection(Protocol):
    """Who waits for the answer."""

    remote: str
    """Its address, or nothing where it has none."""

    def answer(self, answer: bytes, *, closes: bool) -> None:
        """Take the answer's bytes; `closes` says that it is the connection's last."""

    def rest(self, seconds: float) -> None:
        """Be not heard for a while."""


class FastPath:
    """What all fast connections of a pod share."""

    def __init__(
        self,
        pod: Pod,
        connections: AgingConnections,
        traffic: AnswersOwed,
        ids: RequestIds,
        rests: ClientThrottle,
    ) -> None:
        self.pod = pod
        self._health = pod.health
        self._admission = pod.admission
        self.connections = connections
        self.traffic = traffic
        self.ids = ids
        self.endpoints = endpoints_of(pod)
        self.heads = HeadParser(self.endpoints)
        self.wire = ResponseWriter(pod.config.pod.name)
        self.max_bytes: Final = pod.config.http.max_body_bytes
        self.logs: Final = pod.config.log.access_log
        self.refusals = CannedRejections(pod.admission, self.wire)
        self.client_throttle = rests
        self.arrival_clock = ArrivalClock(asyncio.get_running_loop().call_later, pod.now)

    def is_open(self) -> bool:
        """Return whether the pod serves and has a place for another request."""
        return self._health.ready and not self._admission.full()

    def is_full(self) -> bool:
        """Return whether a serving pod has no place for another request."""
        return self._health.ready and self._admission.full()

    def may_displace(self, head: RequestHead, body: bytes) -> bool:
        """Return whether a request that finds the queue full seems to go before one that waits."""
        priority = hinted_class(body, head.header_length)
        return priority < LOWEST_CLASS and self._admission.may_displace(priority)

    def too_late(
        self, head: RequestHead, body: bytes, came: float, now: float
    ) -> DeadlineTooNear | None:
        """Return why a request that came so is to be refused by its head; None if its deadline may be met."""
        timeout = head.timeout_seconds
        if timeout is None or not self._admission.is_slow(timeout, now - came):
            return None
        priority = hinted_class(body, head.header_length)
        late = self._admission.too_late(timeout, now - came, priority)
        return None if late is None else self.refusals.late(late, timeout, now)

    def reject(
        self, refusal: RequestRejected, head: RequestHead, client: ClientConnection, now: float
    ) -> None:
        """Refuse a request by its head, in words written ahead: nothing is made or kept for it."""
        request_id = head.request_id or self.ids.new()
        self.pod.admission.turn_away(refusal)
        self.traffic.last_request_at = now
        told = self.refusals.answer(refusal, request_id, self.endpoint_of(head))
        client.answer(told, closes=False)
        self.throttle(head, client, now)
        if self.logs:
            self.log(head, refusal.status, self.pod.now() - now, client.remote, request_id)

    def throttle(self, head: RequestHead, client: ClientConnection, now: float) -> None:
        """Count a refusal of too much; who asks too often is not heard for a while."""
        self.client_throttle.record_rejection(now)
        seconds = self.client_throttle.seconds(head.timeout_seconds)
        if seconds > 0.0:
            client.rest(seconds)

    def endpoint_of(self, head: RequestHead) -> FastEndpoint:
        """Return the way of a plain request."""
        return self.endpoints[head.target or ""]

    def log(
        self,
        head: RequestHead,
        status: int,
        seconds: float,
        remote: str,
        request_id: str,
        **more: object,
    ) -> None:
        """Write a request's line in the access log."""
        self.traffic.log(
            "POST",
            head.target or "",
            status=status,
            seconds=round(seconds, 6),
            remote=remote,
            request_id=request_id,
            **trace_of(head.trace_parent),
            **more,
        )


class Exchange:
    """One plain request and its answer; ends with exactly one `write`, or is abandoned."""

    __slots__ = (
        "_began",
        "_client",
        "_endpoint",
        "_head",
        "_lane",
        "_last",
        "_reading",
        "_request_id",
        "_ticket",
        "_wanted",
    )

    def __init__(
        self,
        lane: FastPath,
        head: RequestHead,
        client: ClientConnection,
        came: float,
        *,
        last: bool,
    ) -> None:
        self._lane = lane
        self._head = head
        self._client: ClientConnection | None = client
        self._last = last
        self._endpoint = lane.endpoint_of(head)
        self._wanted: Any
        """Of a call that the engine has, whose tensors it alone keeps: in another process they would be here a second time."""
        self._reading: asyncio.Task[None] | None = None
        self._request_id = head.request_id or lane.ids.new()
        self._ticket = lane.pod.admission.open(came)
        lane.traffic.last_request_at = came
        lane.traffic.in_flight += 1

    def begin_when_full(self, body: bytes) -> None:
        """As `begin`, of a pod that is not open: refused before its body is read, unless it goes before one that waits."""
        try:
            priority = hinted_class(body, self._head.header_length)
            self._lane.pod.admission.take_place(self._ticket, priority)
        except Exception as error:  # noqa: BLE001  the last line of defence, as in aiohttp's lane
            self._refuse(error)
            return
        self.begin(body)

    def begin(self, body: bytes) -> None:
        """Admit the request, or answer why not."""
        lane, ticket = self._lane, self._ticket
        admission = lane.pod.admission
        try:
            admission.hold_bytes(ticket, len(body))
            call = self._endpoint.read(body, self._head)
            if type(call) is DeferredCall:
                if not ticket.placed:
                    admission.take_place(ticket)
                self._reading = asyncio.create_task(self._begin_later(call))
            else:
                if call.bytes > ticket.bytes:
                    admission.hold_bytes(ticket, call.bytes)
                self._submit(call)
        except Exception as error:  # noqa: BLE001  the last line of defence, as in aiohttp's lane
            self._refuse(error)

    async def _begin_later(self, later: DeferredCall) -> None:
        """As `begin`, once the call is known, of a request that holds a place; unless its client has gone meanwhile."""
        try:
            call = await later.call(
                self._lane.pod.admission.holding(self._ticket), self._head.timeout_seconds
            )
            if self._client is not None:
                self._submit(call)
        except Exception as error:  # noqa: BLE001  as above
            self._refuse(error)

    def _submit(self, call: Any) -> None:
        admission, ticket = self._lane.pod.admission, self._ticket
        self._wanted = call.wanted
        admission.count_rows(ticket, call.rows)
        admission.submit(ticket, self._endpoint.to_request(ticket, call, self._head), self.on_end)

    def _refuse(self, error: Exception) -> None:
        admission, ticket = self._lane.pod.admission, self._ticket
        if isinstance(error, RequestRejected):
            admission.refuse(ticket, error)
            self._reject(error)
            return
        log.error(DEFECT, exc_info=error, extra={"request_id": self._request_id})
        admission.fail(ticket)
        self._answer(self._endpoint.of_refusal(Defect()))

    def _reject(self, refusal: RequestRejected) -> None:
        """Tell a refusal that is counted; a client that asks too much is given rest."""
        client = self._client
        self._answer(self._endpoint.of_refusal(refusal))
        if refusal.status == TOO_MANY_REQUESTS and client is not None:
            self._lane.throttle(self._head, client, self._lane.pod.now())

    def abandon(self) -> None:
        """Free the request's place: its client has gone."""
        client, self._client = self._client, None
        if self._reading is not None:
            self._reading.cancel()
        lane = self._lane
        lane.pod.admission.cancel(self._ticket)
        lane.pod.admission.depart(self._ticket)
        lane.traffic.in_flight -= 1
        if lane.logs and client is not None:
            self._log(client, CLIENT_GONE, outcome=RequestOutcome.CANCELLED)

    def on_end(self, end: End | QueueFull) -> bool:
        """Write the answer to `end`; return whether a client was still there for it."""
        if self._client is None:
            return False
        try:
            if type(end) is Completed:
                if is_long(end):
                    self._reading = asyncio.create_task(self._serve_later(end))
                else:
                    self._serve(self._endpoint.served(self._wanted, end), end)
                return True
            if isinstance(end, QueueFull):
                self._reject(end)
                return True
            reply = self._endpoint.reply_to(self._wanted, end, self._request_id)
        except Exception:  # what cannot be written must not keep its batch mates from their answers
            log.exception(DEFECT, extra={"request_id": self._request_id})
            reply = self._endpoint.of_refusal(Defect())
        self._answer(reply)
        return True

    async def _serve_later(self, end: Completed) -> None:
        """Answer what is too long to be written at once."""
        try:
            answer = await asyncio.to_thread(self._endpoint.served, self._wanted, end)
            self._serve(answer, end)
        except Exception as error:
            log.error(DEFECT, exc_info=error, extra={"request_id": self._request_id})
            self._answer(self._endpoint.of_refusal(Defect()))

    def _serve(self, answer: InferBody, end: Completed) -> None:
        lane = self._lane
        closes = self._last or lane.pod.health.closing
        told = lane.wire.write_served(answer, end.queue_seconds, self._request_id, closes=closes)
        self._send(told, 200, closes=closes)

    def _answer(self, reply: Reply) -> None:
        lane = self._lane
        closes = self._last or reply.closes or lane.pod.health.closing
        self._send(
            lane.wire.write(reply, self._request_id, closes=closes), reply.status, closes=closes
        )

    def _send(self, data: bytes, status: int, *, closes: bool) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        lane = self._lane
        lane.traffic.in_flight -= 1
        ticket = self._ticket
        if ticket.bytes or ticket.placed:
            lane.pod.admission.depart(ticket)
        client.answer(data, closes=closes)
        if lane.logs:
            self._log(client, status)

    def _log(self, client: ClientConnection, status: int, **more: object) -> None:
        lane = self._lane
        seconds = lane.pod.now() - self._ticket.arrived
        lane.log(self._head, status, seconds, client.remote, self._request_id, **more)
