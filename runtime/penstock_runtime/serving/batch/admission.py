"""`BatchAdmission`: admission of requests to a batch engine."""

import asyncio
from collections.abc import Callable, Iterable

from typing_extensions import override

from penstock_runtime.engine.messages import Cancel, Submit, ToEngine
from penstock_runtime.engine.queue.disciplines import BATCH_CLASS
from penstock_runtime.errors import NotServing, QueueFull
from penstock_runtime.request import OUTCOMES, Completed, End, Failed, Request, RequestOutcome
from penstock_runtime.serving.admission.base import Admission
from penstock_runtime.serving.admission.ticket import Ticket
from penstock_runtime.serving.batch.pending_requests import OnEnd, PendingRequest, PendingRequests
from penstock_runtime.serving.batch.wait_estimate import WaitEstimate
from penstock_runtime.serving.state import ServingState


class BatchAdmission(Admission):
    """Submits requests to a batch engine, and records their ends."""

    def __init__(
        self, send: Callable[[ToEngine], None], state: ServingState, max_bytes: int = 2**62
    ) -> None:
        super().__init__(state, max_bytes)
        self._send = send
        self._pending = PendingRequests(state.now)
        self.wait = WaitEstimate(state.live, self._pending, self.waiting)

    def serve(self, ticket: Ticket, request: Request) -> asyncio.Future[End]:
        """Submit `request`, and return a future of its end.

        Raises:
            DeadlineTooNear: it cannot start before its deadline.
            QueueFull: a full queue has only requests that go first; as the result: a better class displaced it.
            NotServing: the pod stopped serving while the body was read.
        """
        future: asyncio.Future[End] = asyncio.get_running_loop().create_future()

        def on_end(end: End | QueueFull) -> bool:
            if future.done():  # cancelled, and its task has not run since
                return False
            if isinstance(end, QueueFull):
                future.set_exception(end)
            else:
                future.set_result(end)
            return True

        self.submit(ticket, request, on_end)
        return future

    def submit(self, ticket: Ticket, request: Request, on_end: OnEnd) -> None:
        """Submit `request`; `on_end` is called once with its end or displacement, unless it is cancelled before.

        Raises:
            As `serve`.
        """
        if self._health.rejecting:
            raise NotServing(
                "Draining", "this pod is terminating: retry, and another pod will respond"
            )
        if request.deadline is not None:
            late = self.wait.rejection(request.priority, request.deadline - self._now())
            if late is not None:
                try:
                    raise late
                finally:
                    del late  # a cycle: its traceback has this frame
        if ticket.displaces:
            self._displace(request)
        if ticket.placed:
            self.slots.release(ticket)
        self._pending.add(
            PendingRequest(
                ticket, on_end, request.id, request.rows, request.arrived, request.priority
            )
        )
        self._send(Submit((request,)))

    def _displace(self, request: Request) -> None:
        """If the queue is still full, reject the request that would be served last: a waiting one, or `request`."""
        if not self.slots.displacement_needed():
            return
        last, rejection = (
            self._pending.classes.lowest_ranked_after(request),
            self.slots.queue_full(),
        )
        displaced = None if last is None else self._pending.pop(last.id)
        if displaced is None:
            raise self.slots.queue_full()  # a local variable would be a cycle, as above
        self._send(Cancel((displaced.id,)))
        self.reject(displaced.ticket, rejection)
        self.depart(displaced.ticket)
        displaced.on_end(rejection)

    def record_started(self, ids: Iterable[str]) -> None:
        """Record requests that the engine reports as started; called before `deliver` of the same report."""
        self._pending.begin(ids)

    def deliver(self, ends: Iterable[tuple[str, End]]) -> None:
        """Deliver the ends that the engine reports; those of cancelled requests are dropped."""
        now, counters, pop, memory = self._now(), self._counters, self._pending.pop, self.memory
        interactive, batch = counters.interactive, counters.batch
        durations, waits = list[float](), list[float]()
        for name, end in ends:
            request = pop(name)
            if request is None:
                continue
            ticket = request.ticket
            memory.held_bytes -= ticket.bytes
            ticket.bytes = 0
            delivered = request.on_end(end)
            if ticket.left:
                continue
            ticket.left = True
            work = batch if ticket.batch_work else interactive
            if delivered and type(end) is Completed:
                work.served += request.rows
                if ticket.batch_work:  # its latency is of no objective
                    work.ended[RequestOutcome.COMPLETED] += 1
                else:
                    durations.append(now - ticket.arrived)
                    waits.append(end.queue_seconds)
            else:
                work.ended[OUTCOMES[type(end)] if delivered else RequestOutcome.CANCELLED] += 1
        interactive.ended[RequestOutcome.COMPLETED] += len(durations)
        counters.request_seconds.observe_all(durations)
        counters.queue_seconds.observe_all(waits)

    @override
    def submitted(self) -> int:
        return len(self._pending)

    @override
    def owing_since(self) -> float | None:
        return self._pending.since()

    @override
    def fail_all(self, failed: Failed) -> None:
        self.deliver([(name, failed) for name in self._pending.ids()])

    @override
    def retry_after_seconds(self) -> float:
        return self.wait.retry_after_seconds()

    @override
    def _withdraw(self, id: str) -> None:
        if self._pending.pop(id) is not None:
            self._send(Cancel((id,)))

    @override
    def _waiting_below(self, priority: int) -> int:
        return self._pending.classes.waiting_below(priority)

    @override
    def _batch_work_waiting(self) -> int:
        return self._pending.classes.waiting_below(BATCH_CLASS - 1)
