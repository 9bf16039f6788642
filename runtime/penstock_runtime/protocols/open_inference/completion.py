"""Conversion of an `infer` call to a request, and of the request's end to its answer, for both paths."""

import logging
from typing import Final, assert_never

from penstock_runtime.engine.model import ModelInfo
from penstock_runtime.protocols.common.replies import JSON, Reply, error
from penstock_runtime.protocols.open_inference import bodies, infer_response
from penstock_runtime.protocols.open_inference.infer_request import InferCall, ResponseOptions
from penstock_runtime.request import Cancelled, Completed, End, Expired, Failed, Request
from penstock_runtime.serving.admission.ticket import Ticket

log = logging.getLogger(__name__)

BINARY: Final = "application/octet-stream"
HEADER_QUEUE_SECONDS: Final = "X-Penstock-Queue-Seconds"


def to_request(ticket: Ticket, call: InferCall, header_seconds: float | None) -> Request:
    """Return the request for the engine, with the nearer of the call's and the header's deadlines."""
    seconds = call.timeout_seconds
    if header_seconds is not None and (seconds is None or header_seconds < seconds):
        seconds = header_seconds
    return Request(
        ticket.id,
        call.inputs,
        call.rows,
        call.group,
        ticket.arrived,
        ticket.deadline(seconds),
        call.priority,
    )


def reply_to(end: End, options: ResponseOptions, model: ModelInfo, request_id: str) -> Reply:
    """Return the answer to a request that has ended."""
    match end:
        case Completed():
            return _served(end, options, model)
        case Failed():
            log.warning("request failed: %s", end.reason, extra={"request_id": request_id})
            status = 500 if end.retry_after_seconds is None else 503
            return error(status, end.reason, retry_after_seconds=end.retry_after_seconds)
        case Expired():
            return error(
                504,
                f"the deadline passed after {end.waited_seconds:.3f} s of waiting: allow more time",
                field="parameters.timeout",
            )
        case Cancelled():
            return error(499, "the request was cancelled")
        case _:
            assert_never(end)


def _served(end: Completed, options: ResponseOptions, model: ModelInfo) -> Reply:
    answer = infer_response.render(options.id, end.outputs, options.outputs, model)
    waited = (HEADER_QUEUE_SECONDS, f"{end.queue_seconds:.6f}")
    if answer.header_length is None:
        return Reply(200, answer.body, JSON, (waited,))
    length = (bodies.HEADER_LENGTH, str(answer.header_length))
    return Reply(200, answer.body, BINARY, (waited, length))
