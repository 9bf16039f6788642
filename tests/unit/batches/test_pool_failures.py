"""Lines whose pool fails: engines that die, errors, connections that do not open, answers that are too large."""

import socket
from pathlib import Path

import pytest

from penstock_api import names
from penstock_batches.dispatch import outcome, sender
from penstock_batches.dispatch.window import START
from tests.support.batches.scripted_pool import Scripted
from tests.support.batches.served import (
    ended,
    jsonl,
    lines_of,
    request_line,
    running,
    served,
    settings,
    submitted,
    until,
)

GATEWAY_RESET = "upstream connect error or disconnect/reset before headers. retried and the latest reset reason: connection termination"


@pytest.mark.parametrize(
    ("statuses", "error"),
    [((500, 503), f"{names.ENGINE_DIED}: it is stuck"), ((503, 503), GATEWAY_RESET)],
)
async def test_a_pod_or_engine_that_dies_costs_the_lines_next_to_its_cause_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: tuple[int, int], error: str
) -> None:
    monkeypatch.setattr(outcome, "FIRST_PAUSE_SECONDS", 0.02)
    monkeypatch.setattr(outcome, "MAX_PAUSE_SECONDS", 0.2)

    def script(prompt: str, times: int) -> Scripted:
        if prompt == "cause" or times < outcome.MAX_FAILURES:
            return Scripted(statuses[times % 2], retry_after="0", error=error)
        return Scripted()

    async with running(tmp_path, script) as (_, pool, client):
        content = jsonl([request_line("cause"), request_line("next")])
        batch = await ended(client, await submitted(client, content))
        output = await lines_of(client, batch.output_file_id)
        assert [each["custom_id"] for each in output] == ["next"]
        errors = await lines_of(client, batch.error_file_id)
        assert [(each["custom_id"], each["error"]["code"]) for each in errors] == [
            ("cause", "server_error")
        ]
        assert "10 times while this request was computed or queued" in errors[0]["error"]["message"]
        assert pool.sent == {"cause": outcome.MAX_LOSSES, "next": outcome.MAX_FAILURES + 1}


async def test_a_line_that_fails_does_not_grow_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcome, "FIRST_PAUSE_SECONDS", 0.02)

    def script(_prompt: str, times: int) -> Scripted:
        return Scripted(500 if times < outcome.MAX_FAILURES - 1 else 200)

    async with running(tmp_path, script) as (service, _, client):
        batch = await ended(client, await submitted(client, jsonl([request_line("a")])))
        assert batch.error_file_id is None
        assert service.service.dispatcher.gates["demo"].window.size == START + 1


async def test_an_answer_that_is_too_large_is_the_error_of_its_line_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "MAX_ANSWER_BYTES", 1000)
    async with running(tmp_path) as (service, pool, client):
        content = jsonl([request_line("large", prompt="x" * 1000)])
        batch = await ended(client, await submitted(client, content))
        errors = await lines_of(client, batch.error_file_id)
        assert [(each["custom_id"], each["error"]["code"]) for each in errors] == [
            ("large", "answer_too_large")
        ]
        assert set(pool.sent.values()) == {1}
        window = service.service.dispatcher.gates["demo"].window
        assert (window.rejections, window.size) == (0, START)


async def test_a_connection_that_never_opened_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "CONNECT_SECONDS", 0.2)
    with socket.socket() as deaf, socket.socket() as first:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        first.connect(deaf.getsockname())  # the queue is full: later connections get no answer
        pools = f"demo=http://127.0.0.1:{deaf.getsockname()[1]}"
        async with served(settings(tmp_path, pools=pools)) as service, service.client() as client:
            await submitted(client, jsonl([request_line("a")]))
            attempts = service.service.sender.attempts
            await until(lambda: attempts.total() >= 2)
            assert set(attempts) == {"Unreachable"}
