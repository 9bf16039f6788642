"""Structured logging: one line per event, as JSON or text, with the fields of `fields(...)`.

No data of a Secret is ever passed to a logger.
"""

import logging
from collections.abc import Mapping

from penstock_api.log_format import log_to_stderr

FIELDS = "penstock"


def fields(**given: object) -> Mapping[str, Mapping[str, object]]:
    """Return the `extra` of a log call with structured fields."""
    return {FIELDS: given}


def of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the structured fields of a record, without those of kopf."""
    structured: Mapping[str, object] = getattr(record, FIELDS, {})
    return structured


def set_up(log_format: str, level: str) -> None:
    """Log to standard error as `json` or `text`, from `level` up."""
    log_to_stderr(log_format, level, of)
    # kopf and aiohttp log every request and event; the operator logs those that matter
    for noisy in ("kopf", "aiohttp", "urllib3"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLevelName(level)))
