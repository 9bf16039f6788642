"""Structured logs: one line an event, in JSON or as text, fields as given by `fields(...)`.

Nothing that comes from a Secret is ever passed to a logger in this project.
"""

import logging
from collections.abc import Mapping

from penstock_api import log_format as loglines

FIELDS = "penstock"


def fields(**given: object) -> Mapping[str, Mapping[str, object]]:
    """Return the `extra` of a log call that carries structured fields, whatever their names."""
    return {FIELDS: given}


def of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the structured fields of a record; those that kopf puts into its own are not told."""
    held: Mapping[str, object] = getattr(record, FIELDS, {})
    return held


def set_up(log_format: str, level: str) -> None:
    """Send everything to standard error as `json` or `text`, from `level` up."""
    loglines.log_to_stderr(log_format, level, of)
    # kopf and aiohttp say every request and event; what matters of those is said here in our words.
    for noisy in ("kopf", "aiohttp", "urllib3"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))
