"""One line per request in the access log, with status, outcome and known facts, however the request ends."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from penstock_runtime.protocols.openai.completions import CompletionAnswer
from tests.unit.runtime.protocols.openai.served import Served
from tests.unit.runtime.protocols.openai.test_ends import (
    LONG,
    PATH,
    no_request_begins,
    open_request,
)

Lines = Callable[[], list[dict[str, Any]]]
SHORT = {"prompt": "The river", "max_tokens": 3, "ignore_eos": True}
ALWAYS = {"status", "seconds", "request_id", "remote", "outcome"}
TOKENS = {"prompt_tokens", "completion_tokens"}
KNOWN_AT_THE_END = {"queue_seconds", "cached_tokens"}
OF_EVERY_RECORD = vars(logging.makeLogRecord({})).keys() | {"message", "asctime", "taskName"}


@pytest.fixture(scope="module")
def logging_pod(model_folder: Path) -> Iterator[Served]:
    logging_served = Served(model_folder, access_log=True)
    yield logging_served
    logging_served.close()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Lines:
    """Return the fields of each line so far, without method and path."""
    caplog.set_level("INFO", "penstock_runtime.access")

    def read() -> list[dict[str, Any]]:
        lines = [record for record in caplog.records if record.name == "penstock_runtime.access"]
        return [
            {name: vars(record)[name] for name in vars(record).keys() - OF_EVERY_RECORD}
            for record in lines
        ]

    return read


def the_line(lines: Lines) -> dict[str, Any]:
    """Return the only line once it is written."""
    patience = time.monotonic() + 20
    while not lines() and time.monotonic() < patience:
        time.sleep(0.005)
    [line] = lines()
    return line


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_completed_answer_is_logged_with_its_tokens_and_times(
    logging_pod: Served, lines: Lines, stream: bool
) -> None:
    httpx2.post(logging_pod.url + PATH, json={**SHORT, "stream": stream}, timeout=20)
    line = the_line(lines)
    assert line.keys() == ALWAYS | TOKENS | KNOWN_AT_THE_END | {"first_token_seconds"}
    assert (line["status"], line["outcome"], line["completion_tokens"]) == (200, "Completed", 3)
    assert line["prompt_tokens"] > 0
    assert 0 <= line["queue_seconds"] <= line["first_token_seconds"] <= line["seconds"]


def test_a_request_that_expires_before_it_begins_is_logged_without_a_time_to_first_token(
    logging_pod: Served, lines: Lines
) -> None:
    with no_request_begins(logging_pod):
        logging_pod.when_submitted(logging_pod.step.gate.set, seconds=0.3)
        httpx2.post(logging_pod.url + PATH, json={**LONG, "timeout": 0.1}, timeout=20)
        line = the_line(lines)
    assert line.keys() == ALWAYS | TOKENS
    assert (line["status"], line["outcome"], line["completion_tokens"]) == (504, "Expired", 0)
    assert line["seconds"] >= 0.1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_disconnected_client_is_logged_with_its_tokens_so_far(
    logging_pod: Served, lines: Lines, stream: bool
) -> None:
    before = logging_pod.pod.engine.tokens.generated_tokens
    client = open_request(logging_pod, {**LONG, "stream": stream})
    logging_pod.until(lambda: logging_pod.pod.engine.tokens.generated_tokens > before)
    client.close()
    line = the_line(lines)
    assert line.keys() == ALWAYS | TOKENS | {"first_token_seconds"}
    assert (line["status"], line["outcome"]) == (499, "Cancelled")
    assert line["completion_tokens"] > 0


def test_a_client_that_disconnects_while_its_body_is_read_is_logged(
    logging_pod: Served, lines: Lines
) -> None:
    before = logging_pod.pod.counters.received
    client = open_request(logging_pod, SHORT, missing_bytes=1)
    logging_pod.until(lambda: logging_pod.pod.counters.received == before + 1)
    client.close()
    line = the_line(lines)
    assert line.keys() == ALWAYS
    assert (line["status"], line["outcome"]) == (499, "Cancelled")


def test_a_rejection_is_logged_with_its_reason(logging_pod: Served, lines: Lines) -> None:
    httpx2.post(logging_pod.url + PATH, json={**SHORT, "temperature": -1})
    line = the_line(lines)
    assert line.keys() == ALWAYS | {"reason"}
    assert (line["status"], line["outcome"], line["reason"]) == (400, "Rejected", "BadInput")


def test_a_defect_is_a_failure(
    logging_pod: Served, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(CompletionAnswer, "whole", broken)
    httpx2.post(logging_pod.url + PATH, json=SHORT)
    line = the_line(lines)
    assert (line["status"], line["outcome"], line["completion_tokens"]) == (500, "Failed", 3)
