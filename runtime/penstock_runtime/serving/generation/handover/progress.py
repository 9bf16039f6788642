"""`Progress`: the unfinished choices of a generation that other pods continue, and the pauses between attempts. Pure."""

from typing import Final

from penstock_runtime.serving.generation.handover.messages import Finished, Tokens

MAX_FRUITLESS: Final = 8
"""Attempts in a row that a pod refused or broke without a new token, after which the generation fails; with the pauses
between them about 20 s."""
FIRST_PAUSE_SECONDS: Final = 0.25
MAX_PAUSE_SECONDS: Final = 5.0


class Progress:
    """Owns the output of each unfinished choice, which the next attempt continues."""

    def __init__(self, outputs: dict[int, list[int]], absent_seconds: float) -> None:
        """`outputs` has the tokens that each unfinished choice has already; `absent_seconds` is the wait for a pod."""
        self.outputs = outputs
        self._absent_seconds = absent_seconds
        self._fruitless = 0
        self._attempts = 0
        self._absent_since: float | None = None
        """Time of the first attempt in a row that no pod accepted."""

    @property
    def complete(self) -> bool:
        """Whether every choice has finished."""
        return not self.outputs

    def take(self, event: Tokens | Finished) -> bool:
        """Take an event; return False if its choice has finished before, as by a stop string."""
        output = self.outputs.get(event.choice)
        if output is None:
            return False
        self._fruitless = self._attempts = 0
        self._absent_since = None
        if isinstance(event, Finished):
            del self.outputs[event.choice]
        else:
            output.extend(event.tokens)
        return True

    def finish(self, choice: int) -> None:
        """Record that a choice met its stop string."""
        self.outputs.pop(choice, None)

    def pause_after_failure(self) -> float | None:
        """Count an attempt that a pod refused or broke; return the pause before the next, or None after too many."""
        self._absent_since = None
        self._fruitless += 1
        return None if self._fruitless >= MAX_FRUITLESS else self._pause()

    def pause_without_peer(self, now: float) -> float | None:
        """Return the pause after an attempt that no pod accepted, or None once none has for `absent_seconds`."""
        if self._absent_since is None:
            self._absent_since = now
        return None if now - self._absent_since >= self._absent_seconds else self._pause()

    def _pause(self) -> float:
        self._attempts += 1
        return min(FIRST_PAUSE_SECONDS * 2.0 ** (self._attempts - 1), MAX_PAUSE_SECONDS)
