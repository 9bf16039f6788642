"""Logs: one JSON object a line, or text."""

import json
import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from penstock_api.log_format import JsonFormatter, TextFormatter
from penstock_runtime.http.aiohttp_seam import log_broken_http_in_one_line
from penstock_runtime.logs import configure, extras


def record() -> logging.LogRecord:
    record = logging.makeLogRecord(
        {"name": "a", "levelname": "INFO", "msg": "hello %s", "args": ("you",)}
    )
    record.created = 1_700_000_000.25
    record.msecs = 250.0
    record.generation = 5
    return record


def test_a_json_line_has_time_level_message_and_extras() -> None:
    assert json.loads(JsonFormatter(extras).format(record())) == {
        "time": "2023-11-14T22:13:20.250Z",
        "level": "INFO",
        "logger": "a",
        "message": "hello you",
        "generation": 5,
    }


def test_a_text_line_ends_in_its_extras() -> None:
    assert TextFormatter(extras).format(record()).endswith("INFO    a: hello you generation=5")


def test_a_clients_broken_http_is_one_line_without_a_trace(
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    configure("json", "INFO")
    log_broken_http_in_one_line()
    try:
        raise BadHttpMessage("two lengths")
    except BadHttpMessage:
        logging.getLogger("aiohttp.server").exception("Error handling request")
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    line = json.loads(capsys.readouterr().err)
    assert line["level"] == "WARNING"
    assert "two lengths" in line["message"]
    assert "exception" not in line
