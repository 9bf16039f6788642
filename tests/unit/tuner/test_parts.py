"""The parts of the tuner without a pod: the front, the policy, requests, the pod's environment."""

import argparse
import asyncio
import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from penstock_api import names
from penstock_api.types.objectives import ObjectiveMetric
from penstock_api.types.policy import PolicySpec
from penstock_tuner import __main__ as program
from penstock_tuner.__main__ import _space
from penstock_tuner.errors import NoObjective, NoRequest, WrongOption
from penstock_tuner.generation_load import TextShape, generation_sender, shapes
from penstock_tuner.load import Tally, infer_sender, probe, quantile, sample_request
from penstock_tuner.options import check_words, objective, parser
from penstock_tuner.pareto_front import (
    as_json,
    candidate_policy,
    failures,
    front,
    joined,
    nearest,
    table,
)
from penstock_tuner.pod import pod_environment
from penstock_tuner.record import Event, EventKind, StudyRecord, TriedSettings
from penstock_tuner.settings import (
    FailedRequest,
    Latencies,
    LoadMeasurement,
    TunedSettings,
    TuningObjective,
)

OBJECTIVE = TuningObjective(500, 99.0)


def tried(batch: int, on_time: int, p99: float, failed: int = 0, completed: int | None = None) -> TriedSettings:  # fmt: skip
    done = on_time if completed is None else completed
    measurement = LoadMeasurement(10.0, done, on_time, failed, p99 / 2, p99)
    return TriedSettings(TunedSettings(batch, 5), measurement)


def test_the_front_has_no_settings_that_others_surpass_in_both() -> None:
    fast, large, worse = tried(4, 100, 50), tried(32, 300, 400), tried(8, 90, 60)
    assert front([worse, fast, large], OBJECTIVE) == [large, fast]


def test_settings_that_miss_the_objective_are_not_in_the_front() -> None:
    late, refused = tried(64, 300, 900, completed=400), tried(2, 300, 100, failed=10)
    assert front([late, refused], OBJECTIVE) == []
    shares = [each["attainment"] for each in as_json([late, refused], OBJECTIVE)["tried"]]
    assert shares == [0.75, pytest.approx(300 / 310)]


def test_settings_with_which_no_pod_serves_are_not_the_nearest() -> None:
    failed, late = replace(tried(1, 0, 0), failure="no such type"), tried(2, 0, 900, completed=300)
    assert nearest([failed, late]) == late
    assert nearest([failed]) == failed


MEASURED = st.lists(
    st.builds(tried, st.integers(1, 64), st.integers(0, 500), st.floats(1, 499)), max_size=12
)


def test_trials_of_the_same_settings_count_together() -> None:
    once = replace(tried(8, 300, 100), rounds=(30.0, 30.0, 30.0))
    again = replace(tried(8, 100, 200), again=True)
    other = replace(tried(4, 250, 50), again=True)
    assert front([once, other, again], OBJECTIVE) == [other]
    (both,) = front([once, again], OBJECTIVE)
    assert (both.measurement.goodput, both.measurement.seconds) == (20.0, 20.0)
    assert both.measurement.p99_milliseconds == pytest.approx((300 * 100 + 100 * 200) / 400)
    late = replace(again, at_rate=LoadMeasurement(10.0, 100, 10, 0, 400.0, 900.0))
    assert front([once, late], OBJECTIVE) == []


def test_settings_whose_trials_were_pruned_only_count_without_others() -> None:
    complete = replace(tried(8, 200, 100), rounds=(20.0, 20.0, 20.0))
    pruned = replace(tried(16, 300, 100), rounds=(30.0,))
    assert front([complete, pruned], OBJECTIVE) == [complete]
    assert front([pruned, replace(complete, settings=TunedSettings(16, 5))], OBJECTIVE)[0].measurement.goodput == 20.0  # fmt: skip
    assert front([pruned], OBJECTIVE) == [pruned]
    late = replace(tried(4, 100, 900, completed=300), again=True)
    assert front([pruned, late], OBJECTIVE) == [pruned]


@given(MEASURED)
def test_everything_outside_the_front_is_surpassed_by_something_inside(
    measured: list[TriedSettings],
) -> None:
    best = front(measured, OBJECTIVE)
    for each in joined(measured):
        mine = each.measurement
        if mine.meets(OBJECTIVE):
            assert any(
                other.measurement.goodput >= mine.goodput
                and other.measurement.p99_milliseconds <= mine.p99_milliseconds
                for other in best
            )


def test_the_table_lines_up_and_shows_goodput_per_second() -> None:
    lines = table([tried(32, 300, 400), tried(4, 100, 50)]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1].split() == ["32", "5", "30.0", "100.00", "%", "200.0", "400.0"]


def test_the_policy_holds_the_live_settings_as_a_candidate() -> None:
    manifest = candidate_policy(TunedSettings(32, 7, "OpenVINO", 2), "tuned")
    candidate = PolicySpec.model_validate(manifest["spec"]).candidate
    assert candidate is not None
    assert candidate.defaults is not None
    batching = candidate.defaults.batching
    assert batching is not None
    assert batching.size is not None
    assert (batching.size.max, batching.max_queue_delay_milliseconds) == (32, 7)


def test_only_what_was_searched_has_a_column() -> None:
    measured = tried(32, 300, 400).measurement
    both = TriedSettings(TunedSettings(32, 7, "OpenVINO", 2), measured, at_rate=measured)
    heads, cells = table([both]).splitlines()
    assert heads.split()[3:5] == ["backend", "threads"]
    assert heads.endswith("p99 ms at the rate")
    assert cells.split()[2:4] == ["OpenVINO", "2"]
    assert "backend" not in table([tried(32, 300, 400)])


def test_settings_that_are_late_at_the_rate_are_not_in_the_front() -> None:
    late = LoadMeasurement(10.0, 100, 50, 0, 400.0, 900.0)
    slow = replace(tried(32, 300, 400), at_rate=late)
    assert front([slow, tried(4, 100, 50)], OBJECTIVE) == [tried(4, 100, 50)]
    assert nearest([slow, tried(8, 300, 400, failed=10)]) == tried(8, 300, 400, failed=10)


def test_a_discipline_is_part_of_the_candidate_and_the_policy_selects_pools() -> None:
    settings = TunedSettings(32, 7, discipline="ShortestJobFirst")
    selectors = {"namespaceSelector": {"matchLabels": {"tier": "prod"}}}
    spec = PolicySpec.model_validate(candidate_policy(settings, "tuned", selectors)["spec"])
    assert spec.namespace_selector is not None
    assert spec.candidate is not None
    assert spec.candidate.defaults is not None
    assert spec.candidate.defaults.batching is not None
    assert spec.candidate.defaults.batching.discipline == "ShortestJobFirst"


def test_a_record_and_its_lines_are_read_as_they_were_written() -> None:
    first, second = tried(4, 100, 50), replace(tried(8, 200, 70), rounds=(19.0, 20.0))
    second = replace(second, at_rate=first.measurement, again=True)
    record = StudyRecord().with_trial("a", first, 4.0).with_trial("a", second, 9.5)
    assert StudyRecord.read(record.text()) == record
    assert record.with_trial("b", first, 3.0) == StudyRecord("b", 3.0, (first,))
    event = Event(EventKind.TRIAL, study="a", spent_seconds=9.5, tried=second)
    assert Event.read(event.line()) == event
    for line in ("", "Traceback", "{}", "[]", '{"tuner": "Else"}', event.line().replace("rounds", "r")):  # fmt: skip
        assert Event.read(line) is None
    for text in ("", "[]", '{"study": "a"}'):
        with pytest.raises(ValueError, match=r".+"):
            StudyRecord.read(text)


def tensor(datatype: str, *shape: int) -> dict[str, Any]:
    return {"name": "INPUT", "datatype": datatype, "shape": list(shape)}


def test_a_request_has_one_row_of_the_models_inputs() -> None:
    request = sample_request({"inputs": [tensor("FP32", -1, 2, 3), tensor("INT64", -1, 2)]})
    assert [each["shape"] for each in request["inputs"]] == [[1, 2, 3], [1, 2]]
    assert [each["data"] for each in request["inputs"]] == [[0.5] * 6, [1, 1]]
    (flags,) = sample_request({"inputs": [tensor("BOOL", -1, 2)]})["inputs"]
    assert json.dumps(flags["data"]) == "[true, true]"
    (three,) = sample_request({"inputs": [tensor("FP32", -1, 2)]}, rows=3)["inputs"]
    assert (three["shape"], len(three["data"])) == ([3, 2], 6)
    (text,) = sample_request({"inputs": [tensor("BYTES", -1), tensor("INT64", -1, -1)]})["inputs"]
    assert text["shape"] == [1]


def test_a_request_of_unknown_size_has_to_be_given() -> None:
    with pytest.raises(NoRequest, match="--request FILE"):
        sample_request({"inputs": [tensor("FP32", -1, -1)]})


def test_the_reason_is_shown_where_most_requests_failed() -> None:
    refused = tried(4, 1, 50, failed=2)
    refused = replace(refused, measurement=replace(refused.measurement, refusal="400 too long"))
    assert failures([tried(8, 3, 50, failed=2)]) == []
    (sentence,) = failures([tried(8, 3, 50, failed=2), refused])
    assert sentence.startswith("most requests failed in 1 of 2 trials; the last settings were batch_size 4")  # fmt: skip
    assert sentence.endswith(": 400 too long")


async def test_a_request_that_the_pod_rejects_is_named_before_the_search() -> None:
    async def answer(request: web.Request) -> web.Response:
        rows = (await request.json())["inputs"][0]["shape"][0]
        return web.Response() if rows < 9 else web.Response(status=400, text="at most 8 rows")

    app = web.Application()
    app.router.add_post("/infer", answer)
    requests = [sample_request({"inputs": [tensor("FP32", -1)]}, rows) for rows in (1, 8, 9)]
    async with TestServer(app) as server:
        url = str(server.make_url("/infer"))
        await probe(infer_sender(url, requests), 2)
        with pytest.raises(NoRequest, match="400 at most 8 rows: correct --rows"):
            await probe(infer_sender(url, requests), 3)


def parsed(*words: str) -> argparse.Namespace:
    return parser().parse_args(["--objective-ms=500", *words])


@pytest.mark.parametrize(
    ("word", "generates", "message"),
    [
        ("--disciplines=Fifo", False, "--disciplines: 'Fifo' is not known: use FirstInFirstOut, "),
        ("--dtypes=Float32,bf16", False, "--dtypes: 'bf16' is not known: use Auto, Float32"),
        ("--backends=Torch", False, "--backends: 'Torch' is not known: use Auto, Eager"),
        ("--backends=Eager", True, "--backends: 'Eager' is not known: use Auto, OpenVINO, Torch"),
    ],
)
def test_words_that_no_pod_knows_are_rejected(word: str, generates: bool, message: str) -> None:
    with pytest.raises(WrongOption, match=re.escape(message)):
        check_words(parsed(word), generates=generates)
    check_words(parsed("--dtypes=Int8", "--backends=OpenVINO"), generates=generates)


def test_the_window_is_within_the_range_of_the_api() -> None:
    args = parser().parse_args(["--objective-ms=300000"])
    assert _space(args, 64, 64, generates=False).max_queue_delay_milliseconds == 60_000
    assert _space(parsed(), 64, 64, generates=False).max_queue_delay_milliseconds == 250


def test_a_result_without_a_front_removes_the_policy_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [[tried(8, 300, 100)], [tried(8, 0, 900, completed=300)]]

    async def tune(*_: object) -> list[TriedSettings]:
        return results.pop(0)

    monkeypatch.setattr(program, "tune", tune)
    monkeypatch.setenv(names.ENV_MODEL, "{}")
    words = ["--objective-ms=500", f"--folder={tmp_path}"]
    assert program.main(words) == 0
    assert {file.name for file in tmp_path.iterdir()} == {"result.json", "policy.json"}
    assert program.main(words) == 1
    assert {file.name for file in tmp_path.iterdir()} == {"result.json"}


def test_the_pod_is_that_of_the_environment_on_loopback_and_with_the_settings() -> None:
    environ = {
        names.ENV_MODEL: json.dumps({"task": "Tensor"}), names.ENV_TLS_FOLDER: "/tls", "HOME": "/h",
        names.ENV_API_KEYS_FILE: "/keys",
    }  # fmt: skip
    pod = pod_environment(environ, TunedSettings(8, 2, "OpenVINO", 2))
    assert json.loads(pod[names.ENV_MODEL]) == {"task": "Tensor", "backend": "OpenVINO"}
    assert (pod["OMP_NUM_THREADS"], pod["HOME"], pod[names.ENV_HOST]) == ("2", "/h", "127.0.0.1")
    assert not {names.ENV_TLS_FOLDER, names.ENV_API_KEYS_FILE} & pod.keys()
    precise = pod_environment(environ, TunedSettings(8, 2, dtype="Float32"))
    assert json.loads(precise[names.ENV_MODEL])["dtype"] == precise[names.ENV_DTYPE] == "Float32"
    plain = pod_environment(environ, TunedSettings(8, 2))
    assert json.loads(plain[names.ENV_MODEL]) == {"task": "Tensor"}
    assert "OMP_NUM_THREADS" not in plain


def test_a_pod_that_generates_text_has_its_own_backends() -> None:
    environ = {names.ENV_MODEL: json.dumps({"task": "TextGeneration"})}
    pod = pod_environment(environ, TunedSettings(8, None, "OpenVINO"))
    assert json.loads(pod[names.ENV_MODEL]) == {"task": "TextGeneration"}
    assert pod[names.ENV_COMPUTE_BACKEND] == "OpenVINO"


def test_settings_without_a_window_have_none_in_table_policy_and_record() -> None:
    settings = TunedSettings(16, None)
    text = replace(tried(16, 100, 50), settings=settings)
    assert table([text]).splitlines()[0].split()[:2] == ["batch", "goodput/s"]
    manifest = candidate_policy(settings, "tuned")
    assert manifest["spec"]["candidate"]["defaults"]["batching"] == {"size": {"max": 16}}
    PolicySpec.model_validate(manifest["spec"])
    record = StudyRecord().with_trial("a", text, 4.0)
    assert StudyRecord.read(record.text()) == record


def test_tokens_of_a_step_are_part_of_the_candidate_and_have_a_column() -> None:
    settings = TunedSettings(16, None, batched_tokens=1024)
    text = replace(tried(16, 100, 50), settings=settings)
    heads, cells = table([text]).splitlines()
    assert (heads.split()[1], cells.split()[1]) == ("batched_tokens", "1024")
    candidate = PolicySpec.model_validate(candidate_policy(settings, "tuned")["spec"]).candidate
    assert candidate is not None
    assert candidate.defaults is not None
    assert candidate.defaults.batching is not None
    assert candidate.defaults.batching.max_batched_tokens == 1024
    record = StudyRecord().with_trial("a", text, 4.0)
    assert StudyRecord.read(record.text()) == record


def test_a_request_is_on_time_within_all_limits() -> None:
    given = parser().parse_args(["--first-token-ms", "200", "--output-token-ms", "50"])
    limits = objective(given)
    assert limits.metric is ObjectiveMetric.TIME_TO_FIRST_TOKEN
    assert limits.text() == "first token 200 ms and output token 50 ms"
    assert limits.admits(Latencies(9.0, 0.2, 0.05))
    assert not limits.admits(Latencies(9.0, 0.201, 0.05))
    assert not limits.admits(Latencies(9.0, 0.1, 0.051))
    assert limits.admits(Latencies(9.0, 0.1, None))  # an answer of one token
    with pytest.raises(NoObjective, match="--first-token-ms"):
        objective(parser().parse_args([]))


def test_figures_of_latency_are_those_of_the_first_limit() -> None:
    tally = Tally(0.0, 10.0)
    for first in (0.1, 0.2, 0.4):
        tally.count(Latencies(5.0, first, 0.01))
    tally.count(FailedRequest("503 the queue is full"))
    measured = tally.measurement(TuningObjective(300, metric=ObjectiveMetric.TIME_TO_FIRST_TOKEN))
    assert (measured.completed, measured.on_time, measured.failed) == (3, 2, 1)
    assert measured.refusal == "503 the queue is full"
    assert (measured.p50_milliseconds, measured.p99_milliseconds) == (200.0, 400.0)


def test_lengths_are_sent_in_pairs_and_the_shorter_list_again() -> None:
    assert shapes((8, 64, 128), (16,)) == [TextShape(8, 16), TextShape(64, 16), TextShape(128, 16)]
    assert shapes((8,), (16, 32)) == [TextShape(8, 16), TextShape(8, 32)]


CHUNK, LAST = {"choices": [{"text": "a"}], "usage": None}, {"choices": [], "usage": {"completion_tokens": 3}}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "tokens", "completes"), [(200, 3, True), (200, 4, False), (429, 3, False)]
)
async def test_an_answer_counts_with_its_latencies_if_it_has_all_its_tokens(
    status: int, tokens: int, completes: bool
) -> None:
    bodies: list[Any] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        reply = web.StreamResponse(status=status)
        await reply.prepare(request)
        await asyncio.sleep(0.02)
        for event in (CHUNK, CHUNK, CHUNK, LAST):
            await reply.write(f"data: {json.dumps(event)}\n\n".encode())
            await asyncio.sleep(0.01)
        await reply.write(b"data: [DONE]\n\n")
        return reply

    app = web.Application()
    app.router.add_post("/v1/completions", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        url = str(server.make_url("/v1/completions"))
        send = generation_sender(url, "tiny", [TextShape(5, tokens)], seed=1)
        latencies = [await send(session, time.perf_counter()) for _ in range(2)]
    assert [isinstance(each, Latencies) for each in latencies] == [completes, completes]
    prompts = [body["prompt"] for body in bodies]
    assert [len(prompt) for prompt in prompts] == [5, 5]
    assert prompts[0] != prompts[1]  # nothing for a prefix cache
    (first, _) = latencies
    if isinstance(first, FailedRequest):
        expected = (
            "429 data: " if status == 429 else "the answer has 3 of 4 tokens, and ends with {"
        )
        assert first.reason.startswith(expected)
    else:
        assert first.first_token is not None
        assert first.output_token is not None
        assert 0.02 <= first.first_token < first.request
        assert first.output_token == pytest.approx((first.request - first.first_token) / 2)


def test_quantiles_are_of_the_nearest_rank() -> None:
    assert quantile([], 0.99) == 0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile(list(map(float, range(100))), 0.99) == 99.0
