"""`configure`: structured logs on standard error, with the fields of a log call's `extra`."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web import RequestPayloadError

from penstock_api import log_format

log = logging.getLogger(__name__)

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extras(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the `extra` fields of a log call."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _without_trace(record: logging.LogRecord) -> bool:
    """Log a client's broken framing in one line without a trace: any client can cause it."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError | RequestPayloadError):
        record.msg, record.args = "a client sent broken HTTP: %r", (str(error),)
        record.exc_info, record.levelno, record.levelname = None, logging.WARNING, "WARNING"
    return True


def configure(format: str, level: str) -> None:
    """Log to standard error from `level` up, in `format` (`json` or `text`)."""
    log_format.log_to_stderr(format, level, extras)
    logging.getLogger("aiohttp.server").addFilter(_without_trace)


def write_termination_log(file: Path, reason: str, message: str) -> None:
    """Report the reason to the operator: the kubelet copies this file to the container's status."""
    line = " ".join(f"{reason}: {message}".split())
    log.error("%s", line)
    if file.exists():  # the kubelet creates the file
        file.write_text(line, encoding="utf-8")
