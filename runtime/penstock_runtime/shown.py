"""A client's value as an error message shows it: bounded in depth and width, so that neither its text nor its cost is."""

from reprlib import Repr
from typing import Any, Final

MAX_CHARACTERS: Final = 80

_SHORT: Final = Repr()
_SHORT.maxlevel = 4
_SHORT.maxlist = _SHORT.maxdict = 16
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 2 * MAX_CHARACTERS


def shown(value: Any, most: int = MAX_CHARACTERS) -> str:
    """Return at most `most` characters of what `repr` would write: it would recurse, or write megabytes first."""
    return _SHORT.repr(value)[:most]
