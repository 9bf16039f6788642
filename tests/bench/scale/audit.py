"""The operator's writes according to the API server's audit log."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

OURS = '"userAgent":"penstock-operator"'


def writes_since(log: Path, since: datetime) -> list[str]:
    """Return verb and path of every write after a time; the log may have been rotated since."""
    events = [json.loads(line) for file in _files(log) for line in _lines(file) if OURS in line]
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if datetime.fromisoformat(event["requestReceivedTimestamp"]) >= since
    ]


def _files(log: Path) -> list[Path]:
    """Return the rotated logs, `<stem>-<time><suffix>`, from the oldest on, and the log itself."""
    return [*sorted(log.parent.glob(f"{log.stem}-*{log.suffix}")), log]


def _lines(file: Path) -> Iterator[str]:
    with file.open() as lines:
        yield from lines
