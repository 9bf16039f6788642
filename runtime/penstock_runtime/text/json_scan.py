"""`JsonScanner`: finds the end of a JSON value in text that arrives in pieces."""


class JsonScanner:
    """Tracks the brackets and strings of one object or array, and validates nothing else."""

    __slots__ = ("_depth", "_escaped", "_in_string")

    def __init__(self, depth: int = 0) -> None:
        """`depth`: number of enclosing objects and arrays that are already open."""
        self._depth = depth
        self._in_string = False
        self._escaped = False

    def end(self, text: str) -> int | None:
        """Return the number of characters of `text` that belong to the value, or None if the value continues."""
        for place, character in enumerate(text):
            if self._in_string:
                self._string(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]" and self._depth == 0:
                return place
            elif character in "}]":
                self._depth -= 1
            elif character == "," and self._depth == 0:
                return place
            else:
                continue  # part of a number or literal, which ends before the next delimiter
            if self._depth == 0 and not self._in_string:
                return place + 1
        return None

    def _string(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False
