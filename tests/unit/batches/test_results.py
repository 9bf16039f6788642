"""Lines of output and error files."""

import json

from hypothesis import given
from hypothesis import strategies as st

from penstock_batches.records import Fault
from penstock_batches.results import PoolReply, fault_line, response_line


def test_a_response_keeps_its_body_on_one_line() -> None:
    reply = PoolReply(200, "r-1", b'{\n  "text": "a\\nb", "n": 1.10\r\n}\n')
    line = response_line("batch_x", 3, "a", reply)
    assert line.count(b"\n") == 1
    assert b'"n": 1.10' in line
    assert json.loads(line) == {
        "id": "batch_req_x_3",
        "custom_id": "a",
        "response": {
            "status_code": 200,
            "request_id": "r-1",
            "body": {"text": "a\nb", "n": 1.1},
        },
        "error": None,
    }


def test_a_fault_names_code_message_line_and_field() -> None:
    line = fault_line("batch_x", 3, None, Fault("invalid_url", "No.", 3, "url"))
    assert json.loads(line) == {
        "id": "batch_req_x_3",
        "custom_id": None,
        "response": None,
        "error": {"code": "invalid_url", "message": "No.", "line": 3, "param": "url"},
    }


@given(st.binary(max_size=100))
def test_any_body_becomes_one_line_of_json(body: bytes) -> None:
    line = response_line("batch_x", 1, "a", PoolReply(500, "r", body))
    assert line.count(b"\n") == 1
    assert json.loads(line)["custom_id"] == "a"
