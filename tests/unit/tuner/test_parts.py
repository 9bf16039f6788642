"""The parts of the tuner without a pod: the front, the policy, requests, the pod's environment."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock_api import names
from penstock_api.types.policy import PolicySpec
from penstock_tuner.errors import NoRequest
from penstock_tuner.front import as_json, candidate_policy, front, nearest, table
from penstock_tuner.load import quantile, sample_request
from penstock_tuner.pod import pod_environment
from penstock_tuner.record import Event, EventKind, StudyRecord, TriedSettings
from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective

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


MEASURED = st.lists(
    st.builds(tried, st.integers(1, 64), st.integers(0, 500), st.floats(1, 499)), max_size=12
)


@given(MEASURED)
def test_everything_outside_the_front_is_surpassed_by_something_inside(
    measured: list[TriedSettings],
) -> None:
    best = front(measured, OBJECTIVE)
    for each in measured:
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
    second = replace(second, at_rate=first.measurement)
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
    (three,) = sample_request({"inputs": [tensor("FP32", -1, 2)]}, rows=3)["inputs"]
    assert (three["shape"], len(three["data"])) == ([3, 2], 6)
    (text,) = sample_request({"inputs": [tensor("BYTES", -1), tensor("INT64", -1, -1)]})["inputs"]
    assert text["shape"] == [1]


def test_a_request_of_unknown_size_has_to_be_given() -> None:
    with pytest.raises(NoRequest, match="--request FILE"):
        sample_request({"inputs": [tensor("FP32", -1, -1)]})


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


def test_quantiles_are_of_the_nearest_rank() -> None:
    assert quantile([], 0.99) == 0
    assert quantile([1.0, 2.0, 3.0, 4.0], 0.5) == 3.0
    assert quantile(list(map(float, range(100))), 0.99) == 99.0
