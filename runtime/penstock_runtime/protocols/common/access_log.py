"""What is under way on the client port, whichever lane answers it: drain.py and the access log read it."""

import logging
from typing import Final

CLIENT_GONE: Final = 499
"""The status in the log of a request whose client left before its answer (nginx's)."""

access_log = logging.getLogger("penstock_runtime.access")


class AnswersOwed:
    """Counts answers that are still owed."""

    def __init__(self) -> None:
        self.in_flight = 0
        """Requests whose answer is not yet handed to the socket."""
        self.last_request_at = float("-inf")
        """When a client last spoke."""

    def begin(self, now: float) -> None:
        """Note a request at the door."""
        self.last_request_at = now
        self.in_flight += 1

    def end(self) -> None:
        """Note that its answer is written, or that nobody waits for one."""
        self.in_flight -= 1

    def log(self, method: str, path: str, **fields: object) -> None:
        """Write one line of the access log."""
        access_log.info("%s %s", method, path, extra=fields)
