"""What a request is known by between the door and its leaving."""

from typing import Final

from msgspec import Struct

MAX_SECONDS: Final = 2.0**20
"""Of a deadline, twelve days: further ones overflow what threads and `poll` can wait for."""


class Ticket(Struct, gc=False):
    """One request at the door: when it came, and whether its leaving was counted."""

    id: str
    arrived: float
    placed: bool = False
    """Holds a place in the queue: its body has come, and it is not yet submitted."""
    bytes: int = 0
    """That are counted for it, from before its body is read until it leaves."""
    rows_counted: bool = False
    displaces: bool = False
    """Holds that place beyond a full queue: who would be served last is refused when this one is submitted."""
    left: bool = False

    def deadline(self, seconds: float | None) -> float | None:
        """Return when `seconds` after its arrival have passed, at most `MAX_SECONDS`; None: there is no deadline."""
        return None if seconds is None else self.arrived + min(seconds, MAX_SECONDS)
