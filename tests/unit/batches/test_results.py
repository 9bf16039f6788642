"""Lines of output and error files."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_batches import results
from penstock_batches.records import Fault
from penstock_batches.results import (
    HEAD_BYTES,
    PlacedBody,
    PoolReply,
    fault_line,
    placed_body,
    response_line,
)


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
    assert placed_body(line, len(line)) == Fault("invalid_url", "No.", 3, "url")


def test_letters_that_two_pieces_share_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PIECE_BYTES", 2)
    for body in ('{"a": "aé€😀"}', '"€"'):
        line = response_line("batch_x", 1, "a", PoolReply(200, "r", body.encode()))
        assert json.loads(line)["response"]["body"] == json.loads(body)
    cut = response_line("batch_x", 1, "a", PoolReply(200, "r", '"é'.encode()[:-1]))
    assert json.loads(cut)["response"]["body"] == '"\N{REPLACEMENT CHARACTER}'


@given(st.binary(max_size=100))
def test_any_body_becomes_one_line_of_json(body: bytes) -> None:
    line = response_line("batch_x", 1, "a", PoolReply(500, "r", body))
    assert line.count(b"\n") == 1
    assert json.loads(line)["custom_id"] == "a"
    place = placed_body(line[:HEAD_BYTES], len(line))
    assert isinstance(place, PlacedBody)
    assert place.status == 500
    shown = line[place.offset : place.offset + place.length]
    assert json.loads(shown) == json.loads(line)["response"]["body"]
