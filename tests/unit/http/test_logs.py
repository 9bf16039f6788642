"""Logs: one JSON object a line, or text."""

import json
import logging

from penstock_runtime.logs import JsonFormatter, TextFormatter


def record() -> logging.LogRecord:
    made = logging.makeLogRecord(
        {"name": "a", "levelname": "INFO", "msg": "hello %s", "args": ("you",)}
    )
    made.created = 1_700_000_000.25
    made.msecs = 250.0
    made.generation = 5
    return made


def test_a_json_line_has_time_level_message_and_extras() -> None:
    assert json.loads(JsonFormatter().format(record())) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "a",
        "message": "hello you",
        "generation": 5,
    }


def test_a_text_line_ends_in_its_extras() -> None:
    assert TextFormatter().format(record()).endswith("INFO    a: hello you generation=5")
