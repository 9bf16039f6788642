"""`Progress`: the unfinished choices of a generation that other pods continue, and the pauses between attempts. Pure."""

from typing import Final

from penstock_runtime.serving.generation.handover.messages import Finished, Tokens

MAX_FRUITLESS: Final = 8
"""Attempts in a row without a new token, after which the generation fails; with the pauses between them about 20 s."""
FIRST_PAUSE_SECONDS: Final = 0.25
MAX_PAUSE_SECONDS: Final = 5.0


class Progress:
    """Owns the output of each unfinished choice, which the next attempt continues."""

    def __init__(self, outputs: dict[int, list[int]]) -> None:
        """`outputs` has the tokens that each unfinished choice has already."""
        self.outputs = outputs
        self._fruitless = 0

    @property
    def complete(self) -> bool:
        """Whether every choice has finished."""
        return not self.outputs

    def take(self, event: Tokens | Finished) -> bool:
        """Take an event; return False if its choice has finished before, as by a stop string."""
        output = self.outputs.get(event.choice)
        if output is None:
            return False
        self._fruitless = 0
        if isinstance(event, Finished):
            del self.outputs[event.choice]
        else:
            output.extend(event.tokens)
        return True

    def finish(self, choice: int) -> None:
        """Record that a choice met its stop string."""
        self.outputs.pop(choice, None)

    def pause_seconds(self) -> float | None:
        """Count an attempt that did not complete; return the pause before the next, or None after too many."""
        self._fruitless += 1
        if self._fruitless >= MAX_FRUITLESS:
            return None
        return min(FIRST_PAUSE_SECONDS * 2.0 ** (self._fruitless - 1), MAX_PAUSE_SECONDS)
