"""Log lines in JSON and as text."""

import json
import logging

from penstock_api.log_format import JsonFormatter, TextFormatter
from penstock_operator.telemetry.logs import fields, of


def record(**more: object) -> logging.LogRecord:
    log_record = logging.LogRecord(
        "penstock", logging.INFO, __file__, 1, "decided: %s", ("up",), None
    )
    for key, value in fields(**more).items():
        setattr(log_record, key, value)
    return log_record


def test_a_json_line_contains_the_fields() -> None:
    line = json.loads(JsonFormatter(of).format(record(pool="chat", cap=8)))
    assert (line["message"], line["pool"], line["cap"]) == ("decided: up", "chat", 8)
    assert line["level"] == "INFO"


def test_a_text_line_ends_with_the_fields() -> None:
    line = TextFormatter(of).format(record(pool="chat"))
    assert line.endswith("INFO    penstock: decided: up pool=chat")
