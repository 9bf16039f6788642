"""The access log, and the count of requests in flight on the client port that the drain waits for."""

import logging
from typing import Final

CLIENT_GONE: Final = 499
"""Logged status if the client disconnects before its answer, as in nginx."""

access_log = logging.getLogger("penstock_runtime.access")


class AnswersOwed:
    """Counts requests in flight, on either path."""

    def __init__(self) -> None:
        self.in_flight = 0
        """Number of requests without an answer in the socket."""
        self.last_request_at = float("-inf")
        """The time of the last request."""

    def begin(self, now: float) -> None:
        """Count a request that arrived at `now`."""
        self.last_request_at = now
        self.in_flight += 1

    def end(self) -> None:
        """Count a request's end: its answer is written, or its client has left."""
        self.in_flight -= 1

    def log(self, method: str, path: str, **fields: object) -> None:
        """Write one line of the access log."""
        access_log.info("%s %s", method, path, extra=fields)
