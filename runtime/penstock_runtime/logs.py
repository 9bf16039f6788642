"""Structured logs on standard error: JSON for clusters, text for people."""

import json
import logging
import sys
import time
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time (RFC 3339, UTC), level, logger, message, and every `extra`."""

    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        line: dict[str, object] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """Time, level, message, then every `extra` as key=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of one record."""
        extras = [f"{key}={value}" for key, value in vars(record).items() if key not in _STANDARD]
        return " ".join([super().format(record), *extras])


def _without_trace(record: logging.LogRecord) -> bool:
    """Let aiohttp tell of a client's broken framing in one line: any client can cause it."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | RequestPayloadError):
        record.msg, record.args = "a client sent broken HTTP: %r", (str(error),)
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


def configure(format: str, level: str) -> None:
    """Send everything of `level` and above to standard error in `format` (`json` or `text`)."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("aiohttp.server").addFilter(_without_trace)
