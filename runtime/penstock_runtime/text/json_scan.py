"""Where a JSON value ends in a text that comes in pieces."""


class JsonScanner:
    """Follows one object or array, character by character; knows brackets and strings, judges nothing else."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self, depth: int = 0) -> None:
        """`depth`: how many objects and arrays around it were opened before."""
        self._depth = depth
        self._in_string = False
        self._escaped = False

    def end(self, text: str) -> int | None:
        """Return how many characters of `text` still belong to the value, or None if all do and it goes on."""
        for place, one in enumerate(text):
            if self._in_string:
                self._string(one)
            elif one == '"':
                self._in_string = True
            elif one in "{[":
                self._depth += 1
            elif one in "}]" and self._depth == 0:
                return place
            elif one in "}]":
                self._depth -= 1
            elif one == "," and self._depth == 0:
                return place
            else:
                continue  # of a number or a word: its end is what follows it
            if self._depth == 0 and not self._in_string:
                return place + 1
        return None

    def _string(self, one: str) -> None:
        if self._escaped:
            self._escaped = False
        elif one == "\\":
            self._escaped = True
        elif one == '"':
            self._in_string = False
