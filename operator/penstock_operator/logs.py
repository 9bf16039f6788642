"""Structured logs: one line an event, in JSON or as text, fields as given by `fields(...)`.

Nothing that comes from a Secret is ever passed to a logger in this project.
"""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

FIELDS = "penstock"


def fields(**given: object) -> Mapping[str, Mapping[str, object]]:
    """Return the `extra` of a log call that carries structured fields."""
    return {FIELDS: given}


def set_up(log_format: str, level: str) -> None:
    """Send everything to standard error as `json` or `text`, from `level` up."""
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # kopf and aiohttp say every request and event; what matters of those is said here in our words.
    for noisy in ("kopf", "aiohttp", "urllib3"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, then the structured fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """`time LEVEL message key=value ...` for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        more = "".join(f" {key}={value}" for key, value in getattr(record, FIELDS, {}).items())
        line = f"{_time(record)} {record.levelname:7} {record.getMessage()}{more}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _time(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
