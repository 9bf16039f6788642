"""`private_bytes`: memory that a process does not share."""

import re
import resource
from pathlib import Path
from typing import Final

_PRIVATE: Final = re.compile(r"^Private_(?:Clean|Dirty):\s+(\d+) kB", re.MULTILINE)


def private_bytes(process: int) -> int:
    """Return the private memory of `process` in bytes; 0 if it has exited."""
    folder = Path("/proc") / str(process)
    try:
        sizes = _PRIVATE.findall((folder / "smaps_rollup").read_text(encoding="ascii"))
        if sizes:
            return sum(map(int, sizes)) * 1024
        _, resident, shared, *_ = (folder / "statm").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return 0
    return (int(resident) - int(shared)) * resource.getpagesize()
