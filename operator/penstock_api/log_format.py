"""Log formats of operator and runtime on standard error: one line per record, as JSON or as text."""

import json
import logging
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

More = Callable[[logging.LogRecord], Mapping[str, object]]
"""Returns the structured fields of a record."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time (RFC 3339, UTC), level, logger, message, then the structured fields."""

    def __init__(self, more: More) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        line: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self._more(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`time LEVEL logger: message key=value ...`, followed by the trace, if any."""

    def __init__(self, more: More) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        more = "".join(f" {key}={value}" for key, value in self._more(record).items())
        line = f"{_time(record)} {record.levelname:7} {record.name}: {record.getMessage()}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def log_to_stderr(log_format: str, level: str, more: More) -> None:
    """Log only to standard error, from `level` up, as `json` or `text`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(more) if log_format == "json" else TextFormatter(more))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
