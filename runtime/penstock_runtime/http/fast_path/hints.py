"""What a body says of its priority, without reading it: enough to refuse by, not to serve by."""

import re
from typing import Final

from penstock_runtime.engine.queue.disciplines import LOWEST_CLASS, priority_class

_NAME: Final = b'"priority"'
_VALUE: Final = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*([0-9]{1,9})")


def hinted_class(body: bytes, header_length: str | None) -> int:
    """Return the class that a body seems to ask for; the lowest where it asks for none, or not plainly.

    `header_length` is that of the JSON before binary data.
    """
    end = len(body) if header_length is None else int(header_length)
    at = body.find(_NAME, 0, end)
    found = None if at < 0 else _VALUE.match(body, at + len(_NAME))
    return LOWEST_CLASS if found is None else priority_class(int(found[1]))
