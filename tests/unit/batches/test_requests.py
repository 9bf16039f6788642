"""What a line of an input file must be, and the fault of another."""

import contextlib
import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_batches.records import Line
from penstock_batches.requests import MAX_CUSTOM_ID, MAX_LINE_BYTES, BadLine, read_request
from penstock_batches.work.intake import Check
from tests.support.batches.served import request_line

ENDPOINT = "/v1/completions"


def fault(line: Any, endpoint: str = ENDPOINT) -> tuple[str, str | None, str | None]:
    """Return code, param and custom_id of a line that must be bad."""
    content = line if isinstance(line, bytes) else json.dumps(line).encode()
    with pytest.raises(BadLine) as caught:
        read_request(content, 7, endpoint)
    assert caught.value.fault.line == 7
    assert caught.value.fault.message
    return caught.value.fault.code, caught.value.fault.param, caught.value.custom_id


def test_a_valid_line_keeps_its_body_to_the_byte() -> None:
    body = b'{"model": "demo", "seed": 12345678901234567890123, "temperature": 1.10}'
    line = b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": ' + body + b"}"
    request = read_request(line, 1, ENDPOINT)
    assert (request.custom_id, request.model) == ("a", "demo")
    assert bytes(request.body["seed"]) == b"12345678901234567890123"
    assert bytes(request.body["temperature"]) == b"1.10"


def test_a_stream_that_is_off_is_fine() -> None:
    for value in (False, None):
        assert read_request(json.dumps(request_line("a", stream=value)).encode(), 1, ENDPOINT)


@pytest.mark.parametrize(
    ("line", "code", "param", "custom_id"),
    [
        (b"{", "invalid_json_line", None, None),
        (b"[1]", "invalid_json_line", None, None),
        (b"null", "invalid_json_line", None, None),
        (b'{"custom_id": "\xff"}', "invalid_json_line", None, None),
        (b'{"body":' + b"[" * 100_000, "invalid_json_line", None, None),
        (b" " * (MAX_LINE_BYTES + 1), "line_too_long", None, None),
        ({}, "missing_required_parameter", "custom_id", None),
        ({"custom_id": 5}, "invalid_value", "custom_id", None),
        ({"custom_id": ""}, "invalid_value", "custom_id", None),
        ({"custom_id": "x" * 513}, "invalid_value", "custom_id", None),
        ({"custom_id": "a"}, "missing_required_parameter", "method", "a"),
        (request_line("a") | {"method": "GET"}, "invalid_method", "method", "a"),
        (request_line("a") | {"method": ["POST"]}, "invalid_method", "method", "a"),
        (request_line("a") | {"url": "/v1/files"}, "invalid_url", "url", "a"),
        (request_line("a") | {"url": "/v1/embeddings"}, "url_mismatch", "url", "a"),
        (request_line("a") | {"body": None}, "missing_required_parameter", "body", "a"),
        (request_line("a") | {"body": [1]}, "invalid_value", "body", "a"),
        (request_line("a", model=None), "missing_required_parameter", "body.model", "a"),
        (request_line("a", model=3), "invalid_value", "body.model", "a"),
        (request_line("a", stream=True), "invalid_value", "body.stream", "a"),
    ],
)  # fmt: skip
def test_a_bad_line_has_its_fault(
    line: Any, code: str, param: str | None, custom_id: str | None
) -> None:
    assert fault(line) == (code, param, custom_id)


BIG = (b"1e999", b"-1.5e999999999", b"1" * 5_000)
"""Numbers that JSON has and the parser does not read."""
TEXTS = (
    (b"a", "invalid_value", "custom_id", None),
    (b"POST", "invalid_method", "method", "a"),
    (b"/v1/completions", "invalid_url", "url", "a"),
    (b"demo", "invalid_value", "body.model", "a"),
)
"""A text of a line with code, param and custom_id of the fault of another value in its place."""


def replaced(text: bytes, value: bytes) -> bytes:
    line = json.dumps(request_line("a", prompt="p")).encode()
    return line.replace(b'"' + text + b'"', value)


@pytest.mark.parametrize("value", BIG)
def test_a_number_out_of_range_is_a_fault_of_its_line(value: bytes) -> None:
    for text, *expected in TEXTS:
        assert fault(replaced(text, value)) == tuple(expected)


@pytest.mark.parametrize("item", [b"1e300", b"[]"])
def test_a_large_value_in_place_of_a_text_is_not_decoded(item: bytes) -> None:
    items = (MAX_LINE_BYTES - 300) // (len(item) + 1)
    for text, *expected in TEXTS:
        content = replaced(text, b"[" + b",".join([item] * items) + b"]")
        began = time.thread_time()
        assert fault(content) == tuple(expected)
        assert time.thread_time() - began < 0.4  # the decoding alone takes 0.8 to 8 s


def test_a_text_of_any_length_is_quoted_in_part() -> None:
    for text, *expected in TEXTS:
        content = replaced(text, b'"' + b"x" * (MAX_LINE_BYTES - 300) + b'"')
        with pytest.raises(BadLine) as caught:
            read_request(content, 7, ENDPOINT)
        assert [caught.value.fault.code, caught.value.fault.param] == expected[:2]
        assert len(caught.value.fault.message) < 300


def test_the_longest_custom_id_may_be_written_in_escapes() -> None:
    custom_id = "\U0001f600" * MAX_CUSTOM_ID
    content = json.dumps(request_line(custom_id, prompt="p")).encode()
    assert content.count(rb"\ud83d\ude00") == MAX_CUSTOM_ID
    assert read_request(content, 1, ENDPOINT).custom_id == custom_id


@pytest.mark.parametrize("where", ["custom_id", "method", "url", "model", "body"])
def test_a_value_of_any_depth_is_a_fault_of_its_line(where: str) -> None:
    line = request_line("a", model="here") if where == "model" else request_line("a")
    if where != "model":
        line[where] = "here"
    before, after = json.dumps(line).encode().split(b'"here"')
    for depth in range(940, 1010):  # around the parser's limit and that of `repr`
        fault(before + b"[" * depth + b"]" * depth + after)


def codes(*lines: Any, models: tuple[str, ...] = ("demo", "other")) -> list[tuple[int, str]]:
    group = [
        (Line(number, 0, 1), json.dumps(line).encode()) for number, line in enumerate(lines, 1)
    ]
    return [(line.number, bad.fault.code) for line, bad in Check(ENDPOINT, models).faults(group)]


def test_a_duplicate_an_unknown_and_another_model_are_faults_of_their_lines_alone() -> None:
    assert codes(
        request_line("unknown", model="none"),
        request_line("a"),
        request_line("a"),
        request_line("b", model="other"),
        request_line("c"),
    ) == [(1, "model_not_found"), (3, "duplicate_custom_id"), (4, "model_mismatch")]


@given(
    st.binary(max_size=200)
    | st.dictionaries(st.text(max_size=9), st.integers()).map(msgspec.json.encode)
)
def test_any_bytes_are_a_request_or_a_bad_line(content: bytes) -> None:
    with contextlib.suppress(BadLine):
        assert read_request(content, 1, ENDPOINT).custom_id
