"""Visible ends of answers: disconnects, deadlines, drain, engine death, slow readers."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from penstock_api.names import BATCH_PRIORITY
from penstock_api.pod_contract import Discipline
from penstock_runtime.drain import drain
from penstock_runtime.protocols.openai.sse import EventStream
from penstock_runtime.request import RequestOutcome
from penstock_runtime.serving.admission import memory_budget
from penstock_runtime.serving.generation import mailbox
from penstock_runtime.serving.health import Stage
from tests.unit.runtime.protocols.openai.served import Served

Serve = Callable[..., Served]
LONG = {"prompt": "The river", "max_tokens": 1000, "ignore_eos": True}
PATH = "/v1/completions"


def open_request(served: Served, body: dict[str, Any], missing_bytes: int = 0) -> socket.socket:
    """Send a request, without its last `missing_bytes`, over a socket that the test can close."""
    host, port = served.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    raw = json.dumps(body).encode()
    head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(raw)}\r\n\r\n"
    connection.sendall(head.encode() + raw[: len(raw) - missing_bytes])
    return connection


def engine_is_empty(served: Served) -> Callable[[], bool]:
    """Return a check that neither side of the link has a request."""

    def empty() -> bool:
        report = served.pod.engine.report
        idle = report is not None and report.waiting == report.running == 0
        return served.pod.admission.empty() and idle

    return empty


@contextmanager
def no_request_begins(served: Served) -> Iterator[None]:
    """Block a step that began earlier, so that no request begins within the block."""
    before = served.pod.engine.tokens.generated_tokens
    first = open_request(served, LONG)
    served.until(lambda: served.pod.engine.tokens.generated_tokens > before)
    with served.held_still():
        served.until(lambda: served.step.waiting_at_gate)
        yield
    first.close()
    served.until(engine_is_empty(served))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_disconnects_frees_its_slot(served: Served, stream: bool) -> None:
    before = served.pod.counters.ended[RequestOutcome.CANCELLED]
    client = open_request(served, {**LONG, "stream": stream})
    served.until(lambda: served.pod.admission.load().running == 1)
    client.close()
    served.until(engine_is_empty(served))
    assert served.pod.counters.ended[RequestOutcome.CANCELLED] == before + 1


def test_a_write_to_a_disconnected_client_is_a_cancellation(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def gone(_stream: EventStream, _data: bytes) -> None:
        raise ConnectionResetError("Cannot write to closing transport")

    monkeypatch.setattr(EventStream, "_write", gone)
    before = served.pod.counters.ended[RequestOutcome.CANCELLED]
    with caplog.at_level("WARNING"), open_request(served, {**LONG, "stream": True}):
        served.until(lambda: served.pod.counters.ended[RequestOutcome.CANCELLED] == before + 1)
    served.until(engine_is_empty(served))
    assert caplog.records == []


def test_a_waiting_request_of_a_disconnected_client_never_runs(serve: Serve) -> None:
    served = serve(limits={"max_batch_size": 1})
    first = open_request(served, LONG)
    served.until(lambda: served.pod.admission.load().running == 1)
    second = open_request(served, {**LONG, "prompt": "The gate"})
    served.until(lambda: served.pod.admission.load().waiting == 1)
    second.close()
    served.until(lambda: served.pod.admission.load().waiting == 0)
    assert served.pod.admission.load().running == 1
    first.close()
    served.until(engine_is_empty(served))


BY_BODY: tuple[dict[str, Any], dict[str, str]] = {"timeout": 0.2}, {}
BY_HEADER: tuple[dict[str, Any], dict[str, str]] = {}, {"X-Request-Timeout-Ms": "200"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("more", "headers"), [BY_BODY, BY_HEADER], ids=["body", "header"])
def test_a_deadline_that_passes_is_a_504(
    served: Served, more: dict[str, Any], headers: dict[str, str], stream: bool
) -> None:
    late = {**LONG, **more, "stream": stream}
    with no_request_begins(served), httpx2.Client(base_url=served.url, timeout=20) as http:
        served.when_submitted(served.step.gate.set, seconds=0.4)
        answer = http.post(PATH, json=late, headers=headers)
    assert answer.status_code == 504
    assert answer.json()["reason"] == "Expired"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_deadline_bounds_the_compilation_of_a_grammar(served: Served, stream: bool) -> None:
    slow = {**LONG, "stream": stream, "timeout": 0.2, "guided_regex": "a?" * 30_000}
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        answer = http.post(PATH, json=slow)
    assert (answer.status_code, answer.json()["reason"]) == (504, "Expired")
    served.until(engine_is_empty(served))


def test_a_stream_that_meets_its_deadline_gets_an_error_event_then_done(served: Served) -> None:
    headers = {"X-Request-Timeout-Ms": "1500"}
    with (
        httpx2.Client(base_url=served.url, timeout=20) as http,
        http.stream("POST", PATH, json={**LONG, "stream": True}, headers=headers) as answer,
    ):
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        with served.held_still():
            threading.Timer(1.6, served.step.gate.set).start()
            events = [line for line in lines if line]
    assert (answer.status_code, events[-1]) == (200, "data: [DONE]")
    event = json.loads(events[-2].removeprefix("data: "))
    assert (event["reason"], event["error"]["type"]) == ("Expired", "server_error")
    served.until(engine_is_empty(served))


def test_an_answer_of_tritons_generate_that_meets_its_deadline_ends_with_an_error_text(
    served: Served,
) -> None:
    path, options = "/v2/models/tiny/generate", {"max_tokens": 1000, "ignore_eos": True}
    body = {"text_input": "The river", "parameters": options}
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        with no_request_begins(served):
            served.when_submitted(served.step.gate.set, seconds=0.4)
            answer = http.post(path, json=body, headers={"X-Request-Timeout-Ms": "200"})
        assert answer.status_code == 504
        assert "the deadline passed" in answer.json()["error"]
        headers = {"X-Request-Timeout-Ms": "1500"}
        with http.stream("POST", f"{path}_stream", json=body, headers=headers) as stream:
            lines = stream.iter_lines()
            next(lines)
            with served.held_still():
                threading.Timer(1.6, served.step.gate.set).start()
                events = [line for line in lines if line]
    assert "the deadline passed" in json.loads(events[-1].removeprefix("data: "))["error"]
    served.until(engine_is_empty(served))


def test_a_deadline_that_is_not_a_number_is_rejected(served: Served) -> None:
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        headers = {"X-Request-Timeout-Ms": "soon"}
        rejected = http.post(PATH, json=LONG, headers=headers)
    assert rejected.json()["error"]["param"] == "X-Request-Timeout-Ms"


def test_a_full_queue_is_a_429_with_retry_after(serve: Serve) -> None:
    served = serve(limits={"max_batch_size": 1, "max_queue_depth": 1})
    with served.held_still():
        first = open_request(served, LONG)
        served.until(lambda: served.step.waiting_at_gate)
        second = open_request(served, LONG)
        served.until(
            lambda: served.pod.counters.received == 2 and served.pod.admission.slots.full()
        )
        with httpx2.Client(base_url=served.url, timeout=20) as http:
            answer = http.post(PATH, json=LONG)
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        assert answer.json()["reason"] == "QueueFull"
        second.close()
        first.close()


def test_batch_work_has_a_quarter_of_the_queue_no_latencies_and_no_rows(serve: Serve) -> None:
    served = serve(
        limits={"max_batch_size": 1, "max_queue_depth": 8, "discipline": Discipline.PRIORITY}
    )
    line = {"prompt": "The river", "max_tokens": 2, "ignore_eos": True, "priority": BATCH_PRIORITY}
    running = open_request(served, LONG)
    served.until(lambda: served.pod.admission.load().running == 1)
    with httpx2.Client(base_url=served.url, timeout=20) as http, served.held_still():
        lines = [open_request(served, line) for _ in range(2)]
        served.until(lambda: served.pod.admission.waiting() == 2)
        rejected = http.post(PATH, json=line)
        assert (rejected.status_code, rejected.json()["reason"]) == (429, "BatchWorkWaits")
        assert int(rejected.headers["Retry-After"]) >= 1
        urgent = open_request(served, line | {"priority": 0})
        served.until(lambda: served.pod.admission.waiting() == 3)
        assert served.pod.admission.load().waiting == 1, "lines that wait are no demand"
        running.close()
    served.until(lambda: served.pod.counters.ended[RequestOutcome.COMPLETED] == 3)
    latencies = served.pod.counters.request_seconds.buckets()
    assert latencies[-1] == ("+Inf", 1.0)
    assert served.pod.counters.received == 5
    assert served.pod.counters.rows_received == 2, "the lines are no demand of their time"
    assert served.pod.counters.batch.served == 2 * 2, "tokens of two lines"
    assert served.pod.counters.interactive.served >= 2
    for connection in (*lines, urgent):
        connection.close()


def test_slow_senders_hold_no_slot_in_the_queue(serve: Serve) -> None:
    served = serve(limits={"max_queue_depth": 1})
    slow = [open_request(served, LONG, missing_bytes=1) for _ in range(4)]
    served.until(lambda: served.pod.counters.received == 4)
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        assert http.post(PATH, json={"prompt": "a", "max_tokens": 1}).status_code == 200
    for client in slow:
        client.close()
    counters = served.pod.counters
    served.until(lambda: counters.settled() == counters.received == 5)
    assert served.ask(lambda: counters.ended[RequestOutcome.CANCELLED]) == 4


def test_more_prompts_than_free_slots_are_a_429_and_none_begins(
    serve: Serve,
) -> None:
    served = serve(limits={"max_batch_size": 1, "max_queue_depth": 2})
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        answer = http.post(PATH, json={"prompt": ["a", "b", "c", "d"], "max_tokens": 1})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (
            429,
            "rate_limit_exceeded",
            "prompt",
        )
        assert int(answer.headers["Retry-After"]) >= 1
        assert "2 are free, and 4 prompts" in error["message"]
        assert served.ask(served.pod.admission.empty)
        fits = http.post(PATH, json={"prompt": ["a", "b"], "max_tokens": 1})
        assert len(fits.json()["choices"]) == 2
        with served.held_still():
            running = open_request(served, LONG)
            served.until(lambda: served.step.waiting_at_gate)
            waiting = open_request(served, LONG)
            served.until(lambda: served.pod.admission.submitted() == 2)
            assert http.post(PATH, json={"prompt": ["a", "b"]}).status_code == 429
            waiting.close()
            running.close()
    served.until(engine_is_empty(served))
    counters = served.pod.counters
    assert served.ask(lambda: (counters.received, counters.settled())) == (6, 6)


def test_received_demand_counts_prompts(serve: Serve) -> None:
    served = serve(limits={"max_queue_depth": 3})
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        http.post(PATH, json={"prompt": ["a", "b", "c"], "max_tokens": 1})
        assert served.ask(lambda: served.pod.counters.rows_received) == 3
        http.post(PATH, json={"prompt": ["a"] * 4})
        assert served.ask(lambda: served.pod.counters.rows_received) == 7
        served.ask(lambda: setattr(served.pod.health, "stage", Stage.DRAINING))
        assert http.post(PATH, json={"prompt": "a"}).status_code == 503
        unread = 3.5  # the mean of those that were read
        assert served.ask(lambda: served.pod.counters.rows_received) == 7 + unread


def test_a_stream_that_meets_the_drain_deadline_gets_an_error_event_then_done(
    serve: Serve,
) -> None:
    served = serve(deadline_seconds=3.0, accept_seconds=0.1)
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        with http.stream("POST", PATH, json={**LONG, "stream": True}) as answer:
            lines = answer.iter_lines()
            assert next(lines).startswith("data: ")
            served.step.gate.clear()
            served.wait(drain(served.pod, served.clients))
            events = [line for line in lines if line]
        assert events[-1] == "data: [DONE]"
        event = json.loads(events[-2].removeprefix("data: "))
        assert (event["reason"], event["error"]["type"]) == ("Failed", "server_error")


def test_a_drain_lets_short_answers_finish(serve: Serve) -> None:
    served = serve(deadline_seconds=20.0, accept_seconds=0.1)
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        short = {**LONG, "max_tokens": 40, "stream": True}
        with http.stream("POST", PATH, json=short) as answer:
            lines = answer.iter_lines()
            next(lines)
            served.wait(drain(served.pod, served.clients))
            events = [line for line in lines if line]
    assert events[-1] == "data: [DONE]"
    assert json.loads(events[-2].removeprefix("data: "))["choices"][0]["finish_reason"] == "length"


def test_the_last_stream_of_a_connection_has_connection_close_in_its_head(
    serve: Serve,
) -> None:
    served = serve(connection_requests=2)
    body = {"prompt": "a", "max_tokens": 2, "stream": True}
    headers = []
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        for _ in range(4):
            with http.stream("POST", PATH, json=body) as answer:
                headers.append(answer.headers.get("Connection"))
                answer.read()
    assert headers == [None, "close", None, "close"]


def test_a_stream_that_began_before_a_drain_keeps_its_connection_open(serve: Serve) -> None:
    served = serve()
    body = {"prompt": "a", "max_tokens": 40, "ignore_eos": True, "stream": True}
    with httpx2.Client(base_url=served.url, timeout=20) as http:
        with http.stream("POST", PATH, json=body) as answer:
            lines = answer.iter_lines()
            next(lines)
            served.ask(lambda: setattr(served.pod.health, "stage", Stage.DRAINING))
            assert [line for line in lines if line][-1] == "data: [DONE]"
        rejected = http.post(PATH, json=body)
    assert (rejected.status_code, rejected.headers.get("Connection")) == (503, "close")


def test_a_stream_whose_client_does_not_read_is_cancelled(serve: Serve) -> None:
    served = serve(body_timeout_seconds=0.5)
    with served.held_still():
        client = open_request(served, {**LONG, "n": 8, "logprobs": 20, "stream": True})
        served.until(lambda: served.step.waiting_at_gate)
        runner: Any = served.clients._runner
        (connection,) = runner.server.connections
        for end in (client, connection.transport.get_extra_info("socket")):
            for side in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                end.setsockopt(socket.SOL_SOCKET, side, 4096)  # else they take several MB

    def cancelled() -> bool:
        return served.pod.counters.ended[RequestOutcome.CANCELLED] == 1

    with client:
        served.until(lambda: served.step.steps >= 50 or cancelled())
        with served.held_still():  # else all tokens may be there before the time has passed
            served.until(cancelled)
    served.until(engine_is_empty(served))


@pytest.mark.parametrize(
    ("more", "steps", "status"),
    [({}, 20, 499), ({"n": 8, "max_tokens": 3}, 4, 200)],
    ids=["one choice", "eight choices"],
)
def test_a_reader_that_falls_too_far_behind_is_cancelled(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], steps: int, status: int
) -> None:
    monkeypatch.setattr(mailbox, "MAX_TOKENS", 3)
    served = serve()

    def stand_still_during_steps() -> None:
        served.step.gate.set()
        begun, patience = served.step.steps, time.monotonic() + 20
        while served.step.steps < begun + steps and time.monotonic() < patience:
            time.sleep(0.01)

    with httpx2.Client(base_url=served.url, timeout=20) as http, served.held_still():
        served.when_submitted(stand_still_during_steps)
        answer = http.post(PATH, json={**LONG, **more})
    assert answer.status_code == status
    assert served.ask(lambda: served.pod.engine.tokens.slow_readers) == (status == 499)
    served.until(engine_is_empty(served))


def test_a_stream_whose_unread_tokens_exceed_the_memory_of_the_pod_ends_visibly(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox, "FREE_BYTES", 0)
    monkeypatch.setattr(mailbox, "FREE_CHOICE_BYTES", 0)
    monkeypatch.setattr(memory_budget, "UNREAD_TOKENS_SHARE", 2**62)
    served = serve()
    answer = httpx2.post(served.url + PATH, json={**LONG, "stream": True}, timeout=20)
    assert (answer.status_code, "read too slowly" in answer.text) == (499, True)
    served.until(lambda: served.pod.engine.tokens.slow_readers == 1)
    served.until(engine_is_empty(served))
