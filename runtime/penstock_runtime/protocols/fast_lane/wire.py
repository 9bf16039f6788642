"""Answers as bytes, just as aiohttp writes them: the same headers in the same order."""

from http import HTTPStatus
from typing import Final

from aiohttp.helpers import rfc822_formatted_time

from penstock_runtime.protocols.replies import Reply

_REASONS: Final = {one.value: one.phrase for one in HTTPStatus}


class Wire:
    """Writes the heads of one pod's answers."""

    def __init__(self, pod_name: str) -> None:
        self._signature = f"\r\nX-Penstock-Pod: {pod_name}\r\nServer: penstock\r\nContent-Length: "

    def write(self, reply: Reply, request_id: str, *, closes: bool) -> bytes:
        """Return `reply` as bytes; `closes` says that it is the connection's last."""
        reason = _REASONS.get(reply.status, "")
        own = "".join([f"{name}: {value}\r\n" for name, value in reply.headers])
        last = "\r\nConnection: close\r\n\r\n" if closes else "\r\n\r\n"
        head = (
            f"HTTP/1.1 {reply.status} {reason}\r\n{own}Content-Type: {reply.content_type}"
            f"\r\nX-Request-Id: {request_id}{self._signature}{len(reply.body)}"
            f"\r\nDate: {rfc822_formatted_time()}{last}"
        )
        return head.encode("latin-1") + reply.body
