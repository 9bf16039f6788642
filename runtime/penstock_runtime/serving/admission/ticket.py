"""`Ticket`: the identity and accounting of a request on the HTTP side."""

from typing import Final

from msgspec import Struct

MAX_SECONDS: Final = 2.0**20
"""Longest deadline, twelve days: longer ones overflow what threads and `poll` can wait for."""


class Ticket(Struct, gc=False):
    """One arrived request: its time of arrival, and whether its outcome was counted."""

    id: str
    arrived: float
    placed: bool = False
    """Whether it has a slot of the queue: its body was read, and it is not yet submitted."""
    bytes: int = 0
    """Bytes held for it, from before its body is read until it departs."""
    batch_work: bool = False
    """Whether it is batch work, as far as is known: for certain once its rows are counted."""
    rows_counted: bool = False
    displaces: bool = False
    """Whether its slot is beyond a full queue: the lowest-ranked request is rejected when this one is submitted."""
    left: bool = False

    def deadline(self, seconds: float | None) -> float | None:
        """Return the time `seconds` after its arrival, at most `MAX_SECONDS`; None: there is no deadline."""
        return None if seconds is None else self.arrived + min(seconds, MAX_SECONDS)
