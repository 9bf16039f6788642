"""The operator's writes, as the API server's audit log counts them."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

OURS = '"userAgent":"penstock-operator"'


def writes_since(log: Path, since: datetime) -> list[str]:
    """Return verb and path of every write after a time; the log may have been rotated since, once."""
    events = [json.loads(line) for file in _files(log) for line in _lines(file) if OURS in line]
    return [
        f"{one['verb']} {one['requestURI']}"
        for one in events
        if datetime.fromisoformat(one["requestReceivedTimestamp"]) >= since
    ]


def _files(log: Path) -> list[Path]:
    """Return the log and what it was rotated into, `<stem>-<time><suffix>`, the oldest first."""
    return [*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log]


def _lines(file: Path) -> Iterator[str]:
    with file.open() as lines:
        yield from lines
