"""Answers the plain requests of one pod: the same admission, reader and replies as aiohttp's path, in fewer steps."""

import asyncio
import logging
from typing import Any, Final, Protocol

from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from penstock_runtime.errors import DeadlineTooNear, Defect, QueueFull, RequestRejected
from penstock_runtime.http.client_throttle import TOO_MANY_REQUESTS, ClientThrottle
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
from penstock_runtime.serving.batch.client import BatchPod

log = logging.getLogger(__name__)

DEFECT: Final = "defect while serving a request"


class ClientConnection(Protocol):
    """The connection that a request came from."""

    remote: str
    """The client's address; empty where it has none."""

    def answer(self, answer: bytes, *, closes: bool) -> None:
        """Write the bytes of an answer; with `closes` it is the connection's last."""

    def throttle(self, seconds: float) -> None:
        """Pause reading."""


class FastPath:
    """The state that all fast connections of a pod share."""

    def __init__(
        self,
        pod: BatchPod,
        connections: AgingConnections,
        traffic: AnswersOwed,
        ids: RequestIds,
        client_throttle: ClientThrottle,
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
        self.rejections = CannedRejections(pod.admission, self.wire)
        self.client_throttle = client_throttle
        self.arrival_clock = ArrivalClock(asyncio.get_running_loop().call_later, pod.now)

    def is_open(self) -> bool:
        """Return whether the pod serves and its queue has room."""
        return self._health.ready and not self._admission.slots.full()

    def is_full(self) -> bool:
        """Return whether the pod serves and its queue is full."""
        return self._health.ready and self._admission.slots.full()

    def may_displace(self, priority: int) -> bool:
        """Return whether a request of this class to a full queue ranks before a waiting one."""
        return priority < BATCH_CLASS and self._admission.slots.may_displace(priority)

    def too_late(
        self, head: RequestHead, body: bytes, arrived: float, now: float
    ) -> DeadlineTooNear | None:
        """Return the rejection of a request that cannot meet the deadline in its head; None if it may meet it."""
        timeout = head.timeout_seconds
        if timeout is None or not self._admission.wait.is_slow(timeout, now - arrived):
            return None
        priority = hinted_class(body, head.header_length)
        late = self._admission.wait.too_late(timeout, now - arrived, priority)
        return None if late is None else self.rejections.late(late, timeout, now)

    def reject(
        self,
        rejection: RequestRejected,
        priority: int,
        head: RequestHead,
        client: ClientConnection,
        now: float,
    ) -> None:
        """Reject a request by its head, with a pre-rendered answer: nothing is allocated or kept for it."""
        request_id = head.request_id or self.ids.new()
        self.pod.admission.reject_unread(rejection, priority)
        self.traffic.last_request_at = now
        answer = self.rejections.answer(rejection, request_id, self.endpoint_of(head))
        client.answer(answer, closes=False)
        self.throttle(head, client, now)
        if self.logs:
            self.log(head, rejection.status, self.pod.now() - now, client.remote, request_id)

    def throttle(self, head: RequestHead, client: ClientConnection, now: float) -> None:
        """Count a 429, and pause its connection where the rate of rejections is too high."""
        self.client_throttle.record_rejection(now)
        seconds = self.client_throttle.pause_seconds(head.timeout_seconds)
        if seconds > 0.0:
            client.throttle(seconds)

    def endpoint_of(self, head: RequestHead) -> FastEndpoint:
        """Return the endpoint of a plain request."""
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
    """One plain request and its answer; it writes exactly one answer, or is abandoned."""

    __slots__ = (
        "_client",
        "_endpoint",
        "_head",
        "_last",
        "_options",
        "_path",
        "_request_id",
        "_task",
        "_ticket",
    )

    def __init__(
        self,
        path: FastPath,
        head: RequestHead,
        client: ClientConnection,
        arrived: float,
        *,
        last: bool,
    ) -> None:
        self._path = path
        self._head = head
        self._client: ClientConnection | None = client
        self._last = last
        self._endpoint = path.endpoint_of(head)
        self._options: Any
        """What remains of the call once the engine has its tensors: with another process, they would be in memory twice."""
        self._task: asyncio.Task[None] | None = None
        """Reads a deferred call, or renders a long answer."""
        self._request_id = head.request_id or path.ids.new()
        self._ticket = path.pod.admission.open(arrived)
        path.traffic.last_request_at = arrived
        path.traffic.in_flight += 1

    def begin_when_full(self, body: bytes) -> None:
        """Begin on a pod that is not open: reject before the body is read, unless the request displaces a waiting one."""
        try:
            priority = hinted_class(body, self._head.header_length)
            self._path.pod.admission.slots.reserve_slot(self._ticket, priority)
        except Exception as error:  # noqa: BLE001  the last line of defence, as on aiohttp's path
            self._end_early(error)
            return
        self.begin(body)

    def begin(self, body: bytes) -> None:
        """Admit the request, or answer why not."""
        path, ticket = self._path, self._ticket
        admission = path.pod.admission
        try:
            admission.memory.hold(ticket, len(body))
            call = self._endpoint.read(body, self._head)
            if type(call) is DeferredCall:
                if not ticket.placed:
                    admission.slots.reserve_slot(ticket)
                self._task = asyncio.create_task(self._begin_later(call))
            else:
                if call.bytes > ticket.bytes:
                    admission.memory.hold(ticket, call.bytes)
                self._submit(call)
        except Exception as error:  # noqa: BLE001  the last line of defence, as on aiohttp's path
            self._end_early(error)

    async def _begin_later(self, deferred: DeferredCall) -> None:
        """Submit a deferred call, which has its place in the queue already, unless its client has left meanwhile."""
        try:
            call = await deferred.call(
                self._path.pod.admission.memory.holding(self._ticket), self._head.timeout_seconds
            )
            if self._client is not None:
                self._submit(call)
        except Exception as error:  # noqa: BLE001  as above
            self._end_early(error)

    def _submit(self, call: Any) -> None:
        admission, ticket = self._path.pod.admission, self._ticket
        self._options = call.options
        admission.count_rows(ticket, call.rows, call.priority)
        admission.submit(ticket, self._endpoint.to_request(ticket, call, self._head), self.on_end)

    def _end_early(self, error: Exception) -> None:
        admission, ticket = self._path.pod.admission, self._ticket
        if isinstance(error, RequestRejected):
            admission.reject(ticket, error)
            self._reject(error)
            return
        log.error(DEFECT, exc_info=error, extra={"request_id": self._request_id})
        admission.fail(ticket)
        self._answer(self._endpoint.of_rejection(Defect()))

    def _reject(self, rejection: RequestRejected) -> None:
        """Answer a rejection that is counted already; throttle the client after too many."""
        client = self._client
        self._answer(self._endpoint.of_rejection(rejection))
        if rejection.status == TOO_MANY_REQUESTS and client is not None:
            self._path.throttle(self._head, client, self._path.pod.now())

    def abandon(self) -> None:
        """Free the request's place: its client has left."""
        client, self._client = self._client, None
        # the traceback of the task's exception has this exchange: not to be kept in a cycle
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
        path = self._path
        path.pod.admission.cancel(self._ticket)
        path.pod.admission.depart(self._ticket)
        path.traffic.in_flight -= 1
        if path.logs and client is not None:
            self._log(client, CLIENT_GONE, outcome=RequestOutcome.CANCELLED)

    def on_end(self, end: End | QueueFull) -> bool:
        """Answer the end of the request; return whether its client was still there."""
        if self._client is None:
            return False
        try:
            if type(end) is Completed:
                if is_long(end):
                    self._task = asyncio.create_task(self._serve_later(end))
                else:
                    self._serve(self._endpoint.served(self._options, end), end)
                return True
            if isinstance(end, QueueFull):
                self._reject(end)
                return True
            reply = self._endpoint.reply_to(self._options, end, self._request_id)
        except (
            Exception
        ):  # an answer that cannot be rendered must not block those of its batch-mates
            log.exception(DEFECT, extra={"request_id": self._request_id})
            reply = self._endpoint.of_rejection(Defect())
        self._answer(reply)
        return True

    async def _serve_later(self, end: Completed) -> None:
        """Render a long answer in a thread, and write it."""
        try:
            answer = await asyncio.to_thread(self._endpoint.served, self._options, end)
            self._serve(answer, end)
        except Exception as error:
            log.error(DEFECT, exc_info=error, extra={"request_id": self._request_id})
            self._answer(self._endpoint.of_rejection(Defect()))

    def _serve(self, answer: InferBody, end: Completed) -> None:
        path = self._path
        closes = self._last or path.pod.health.closing
        data = path.wire.write_served(answer, end.queue_seconds, self._request_id, closes=closes)
        self._send(data, 200, closes=closes)

    def _answer(self, reply: Reply) -> None:
        path = self._path
        closes = self._last or reply.closes or path.pod.health.closing
        self._send(
            path.wire.write(reply, self._request_id, closes=closes), reply.status, closes=closes
        )

    def _send(self, data: bytes, status: int, *, closes: bool) -> None:
        client, self._client = self._client, None
        if client is None:
            return
        path = self._path
        path.traffic.in_flight -= 1
        ticket = self._ticket
        if ticket.bytes or ticket.placed:
            path.pod.admission.depart(ticket)
        client.answer(data, closes=closes)
        if path.logs:
            self._log(client, status)

    def _log(self, client: ClientConnection, status: int, **more: object) -> None:
        path = self._path
        seconds = path.pod.now() - self._ticket.arrived
        path.log(self._head, status, seconds, client.remote, self._request_id, **more)
