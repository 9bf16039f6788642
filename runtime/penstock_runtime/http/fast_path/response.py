"""The writer of HTTP/1.1 responses: the same headers in the same order as aiohttp's path."""

from http import HTTPStatus
from typing import Final

from aiohttp.helpers import rfc822_formatted_time

from penstock_runtime.protocols.common.replies import JSON, Reply
from penstock_runtime.protocols.open_inference.bodies import HEADER_LENGTH
from penstock_runtime.protocols.open_inference.completion import BINARY, HEADER_QUEUE_SECONDS
from penstock_runtime.protocols.open_inference.infer_response import InferBody

_REASONS: Final = {status.value: status.phrase for status in HTTPStatus}


class ResponseWriter:
    """Renders the answers of one pod."""

    def __init__(self, pod_name: str) -> None:
        self._signature = f"\r\nX-Penstock-Pod: {pod_name}\r\nServer: penstock\r\nContent-Length: "
        self._date = ""
        self._served = b""
        """The template of this second's JSON answers, to fill with queue time, id, length and body."""
        self._served_binary = b""
        """The template with binary tensors: the length of the JSON follows the queue time."""

    def write_served(
        self, answer: InferBody, queue_seconds: float, request_id: str, *, closes: bool
    ) -> bytes:
        """Return the answer to a completed request as bytes: `write` of its `Reply`, in one step."""
        length, date = answer.header_length, rfc822_formatted_time()
        if not closes:
            if date is not self._date:
                self._date, self._served = date, self._served_at(date, JSON)
                self._served_binary = self._served_at(date, BINARY, f"{HEADER_LENGTH}: %d\r\n")
            body = answer.body
            if length is None:
                return self._served % (queue_seconds, request_id.encode(), len(body), body)
            return self._served_binary % (
                queue_seconds,
                length,
                request_id.encode(),
                len(body),
                body,
            )
        last = "\r\nConnection: close\r\n\r\n"
        kind = JSON if length is None else BINARY
        own = "" if length is None else f"{HEADER_LENGTH}: {length}\r\n"
        head = (
            f"HTTP/1.1 200 OK\r\n{HEADER_QUEUE_SECONDS}: {queue_seconds:.6f}\r\n{own}Content-Type: {kind}"
            f"\r\nX-Request-Id: {request_id}{self._signature}{len(answer.body)}"
            f"\r\nDate: {date}{last}"
        )
        return head.encode("latin-1") + answer.body

    def _served_at(self, date: str, kind: str, own: str = "") -> bytes:
        signature = self._signature.replace("%", "%%")
        return (
            f"HTTP/1.1 200 OK\r\n{HEADER_QUEUE_SECONDS}: %.6f\r\n{own}Content-Type: {kind}"
            f"\r\nX-Request-Id: %b{signature}%d\r\nDate: {date}\r\n\r\n%b"
        ).encode("latin-1")

    def around_id(self, reply: Reply) -> tuple[bytes, bytes]:
        """Return the bytes before and after the request id, for an answer that many requests get."""
        before, _, after = self.write(reply, "\0", closes=False).partition(b"\0")
        return before, after

    def write(self, reply: Reply, request_id: str, *, closes: bool) -> bytes:
        """Return `reply` as bytes; with `closes` it is the connection's last."""
        reason = _REASONS.get(reply.status, "")
        own = "".join([f"{name}: {value}\r\n" for name, value in reply.headers])
        last = "\r\nConnection: close\r\n\r\n" if closes else "\r\n\r\n"
        head = (
            f"HTTP/1.1 {reply.status} {reason}\r\n{own}Content-Type: {reply.content_type}"
            f"\r\nX-Request-Id: {request_id}{self._signature}{len(reply.body)}"
            f"\r\nDate: {rfc822_formatted_time()}{last}"
        )
        return head.encode("latin-1") + reply.body
