"""Bursts: the notes of one pool and reason that follow each other closely and share an Event. Pure."""

from dataclasses import dataclass, field
from uuid import uuid4

from penstock_operator.decide.actions import EventNote

BURST_SECONDS = 60.0
"""Time without a note after which the next one begins a new Event."""
WRITE_SECONDS = 10.0
"""Minimum time between two writes for one pool and reason."""
MESSAGE_LENGTH = 1024
"""The API server's limit for the message of an Event."""
MAX_UNWRITTEN = 16
"""Events of one pool that wait for the API server; the oldest is dropped, and logged, before one more waits."""


@dataclass(slots=True)
class Burst:
    """One Event: its notes so far, and how many of them the API server has."""

    note: EventNote
    """The first note, which determines type and reason."""
    first: float
    """Time of the first note, in Unix seconds."""
    last: float
    messages: list[str]
    """Distinct messages in the order of their first note."""
    count: int = 1
    """Notes, repeated ones included."""
    written: int = 0
    """Notes that the API server has; 0: the Event does not exist."""
    name_suffix: str = field(default_factory=lambda: uuid4().hex[:16])

    @classmethod
    def of(cls, note: EventNote, now: float) -> "Burst":
        """Return a burst of one note."""
        return cls(note, now, now, [note.message])

    @property
    def message(self) -> str:
        """All messages as one, each without its final period where another one follows."""
        text = "; ".join([message.rstrip(".") for message in self.messages[:-1]])
        return (f"{text}; {self.messages[-1]}" if text else self.messages[-1])[:MESSAGE_LENGTH]

    def add(self, note: EventNote, now: float) -> bool:
        """Add a note that follows closely and fits into the message; return whether it was added."""
        new = note.message not in self.messages
        longer = len(self.message) + len("; ") + len(note.message)
        if not 0 <= now - self.last < BURST_SECONDS or (new and longer > MESSAGE_LENGTH):
            return False
        if note.type is not self.note.type:
            return False
        if new:
            self.messages.append(note.message)
        self.count, self.last = self.count + 1, now
        return True


@dataclass(slots=True)
class PoolBursts:
    """The bursts of one pool: per reason one that may grow, and earlier ones that are not written yet."""

    _bursts: list[Burst] = field(default_factory=list)
    """In order of their first notes."""
    _written_at: dict[str, float] = field(default_factory=dict)
    """Time of the last write, by reason."""

    def add(self, note: EventNote, now: float) -> Burst | None:
        """Add a note; return an unwritten burst that had to make room for it."""
        open_burst = next((b for b in reversed(self._bursts) if b.note.reason == note.reason), None)
        if open_burst is not None and open_burst.add(note, now):
            return None
        self._bursts.append(Burst.of(note, now))
        unwritten = self.unwritten()
        if len(unwritten) <= MAX_UNWRITTEN:
            return None
        self._bursts.remove(unwritten[0])
        return unwritten[0]

    def due(self, now: float) -> list[Burst]:
        """Return the bursts to write now, the oldest first."""
        waits = {r for r, at in self._written_at.items() if 0 <= now - at < WRITE_SECONDS}
        return [burst for burst in self.unwritten() if burst.note.reason not in waits]

    def unwritten(self) -> list[Burst]:
        """Return the bursts with notes that the API server does not have."""
        return [burst for burst in self._bursts if burst.written < burst.count]

    def record_attempt(self, reason: str, now: float) -> None:
        """Start the pause after a write, successful or not."""
        self._written_at[reason] = now

    def prune(self, now: float) -> bool:
        """Drop bursts that are written and over; return whether nothing is left."""
        self._bursts = [
            burst
            for burst in self._bursts
            if burst.written < burst.count or 0 <= now - burst.last < BURST_SECONDS
        ]
        kept = {burst.note.reason for burst in self._bursts}
        self._written_at = {r: at for r, at in self._written_at.items() if r in kept}
        return not self._bursts
