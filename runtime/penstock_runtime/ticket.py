"""What a request is known by between the door and its leaving."""

from msgspec import Struct


class Ticket(Struct, gc=False):
    """One request at the door: when it came, and whether its leaving was counted."""

    id: str
    arrived: float
    reading: bool = False
    """Holds a credit while its body is read."""
    bytes: int = 0
    """That are counted for it, from before its body is read until it leaves."""
    rows_counted: bool = False
    displaces: bool = False
    """Holds that credit beyond a full queue: who would be served last is refused once its body is read."""
    left: bool = False
