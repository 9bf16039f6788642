"""Log lines in JSON and as text."""

import ast
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import penstock_operator
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


def calls(*names: str) -> Iterator[tuple[str, ast.Call]]:
    """Yield the message and the node of each log call in the operator's files, or in some of them; none for debugging."""
    for file in Path(penstock_operator.__file__).parent.rglob("*.py"):
        if names and file.name not in names:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if ast.unparse(node.func.value) == "log" and node.func.attr != "debug":
                (message, *_) = node.args
                yield str(getattr(message, "value", "")), node


def test_a_line_about_a_pool_has_it_as_a_field() -> None:
    """`jq 'select(.pool == "chat")'` finds no pool in a message."""
    about = {message: node for message, node in calls() if message.startswith("%s/%s")}
    assert len(about) > 5
    without = [
        message
        for message, node in about.items()
        if "extra" not in {each.arg for each in node.keywords}
    ]
    assert without == []
