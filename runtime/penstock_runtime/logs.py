"""`configure`: structured logs on standard error, with the fields of a log call's `extra`."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from penstock_api import log_format

log = logging.getLogger(__name__)

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def extras(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the `extra` fields of a log call."""
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def configure(format: str, level: str) -> None:
    """Log to standard error from `level` up, in `format` (`json` or `text`)."""
    log_format.log_to_stderr(format, level, extras)


def write_termination_log(file: Path, reason: str, message: str) -> None:
    """Report the reason to the operator: the kubelet copies this file to the container's status."""
    line = " ".join(f"{reason}: {message}".split())
    log.error("%s", line)
    if file.exists():  # the kubelet creates the file
        file.write_text(line, encoding="utf-8")
