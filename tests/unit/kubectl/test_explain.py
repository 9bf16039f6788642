"""`kubectl penstock explain` shows why the valves stand as they do, from the pool's own status."""

from copy import deepcopy
from pathlib import Path

import pytest
from urllib3.exceptions import HTTPError

from penstock_kubectl import cluster
from penstock_kubectl.__main__ import main
from tests.unit.kubectl.stage import (
    NAMESPACE,
    POLICIES,
    PROMETHEUS,
    Object,
    Stage,
    kubeconfig,
    policy,
    pool,
)


def run(stage: Stage, folder: Path, *words: str) -> int:
    with kubeconfig(stage, folder) as file:
        return main(["explain", "chat", "--kubeconfig", str(file), *words])


def test_the_page_shows_the_whole_decision(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stage = Stage(pool(), [policy(bounds={"replicas": {"max": 3}})], [])
    assert run(stage, tmp_path) == 0
    said = capsys.readouterr().out
    for part in (
        "team-a/chat",
        "2 of 3 replicas are Ready, batch cap 24.",
        "limited by a policy's bound on replicas",
        "130.5 rows/s",
        "161.0 rows/s",
        "5000 lines, 20.50 lines/s",
        "0.34 replicas to end in time, 1 added",
        "100.00 + 10.000 b ms",
        "R2 0.981",
        "92.4 %",
        "at most 80.0 %",
        "objective: request 1000 ms for 99 %",
        "98.7 %",
        "42.0 s",
        "2 pods acknowledged generation 12",
        "6 requested, 3 granted by prod",
        "Forecast 3.40",
        "by prod: 1.50 replica hours, actual 2.25",
        "saturated",
        "meets the objective",
        "MetricsAvailable False",
    ):
        assert part in said, part
    assert "Progressing False" not in said


def test_words_of_a_newer_operator_are_printed_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = deepcopy(pool())
    subject["status"]["scaling"] |= {
        "source": "Gateway",
        "dutySource": "Rocm",
        "boundBy": "PriceCeiling",
    }
    subject["status"]["lastDecision"] |= {"acted": "Deferred", "boundBy": "PriceCeiling"}
    subject["status"]["lastDecision"]["alternatives"][0]["verdict"] = "TooExpensive"
    assert run(Stage(subject, [], []), tmp_path) == 0
    said = capsys.readouterr().out
    for word in ("Gateway", "Rocm", "limited by PriceCeiling", "Deferred", "TooExpensive"):
        assert word in said, word


def test_the_newest_event_comes_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(Stage(pool(), [], []), tmp_path)
    said = capsys.readouterr().out
    places = [said.index(f"10:{minute}:00") for minute in (20, 15, 10)]
    assert places == sorted(places)


def test_history_is_a_chart_of_what_prometheus_knows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = {"prometheus": {"url": PROMETHEUS}}
    stage = Stage(pool(), [policy(metrics=where)], [10.0] * 60 + [80.0] * 60)
    assert run(stage, tmp_path, "--last", "30m") == 0
    said = capsys.readouterr().out
    assert "The last 30 min" in said
    (line,) = [text for text in said.splitlines() if "demand, rows/s" in text]
    assert "▁" in line
    assert "█" in line
    assert line.split()[-3:] == ["10", "80", "80"]
    assert all('namespace="team-a",pool="chat"' in query for query in stage.queries)


def test_history_comes_from_the_prometheus_of_the_installation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = pool()
    scaling = {**stored["status"]["scaling"], "prometheusUrl": PROMETHEUS}
    stored = {**stored, "status": {**stored["status"], "scaling": scaling}}
    stage = Stage(stored, [], [10.0] * 60)
    assert run(stage, tmp_path, "--last", "15m") == 0
    assert "The last 15 min" in capsys.readouterr().out
    assert stage.queries


def test_history_comes_from_the_prometheus_that_the_operator_queries_even_while_pods_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = deepcopy(pool())
    stored["status"] |= {"prometheusUrl": PROMETHEUS}
    stored["status"]["scaling"] |= {"source": "Pods"}
    stage = Stage(stored, [], [10.0] * 60)
    assert run(stage, tmp_path, "--last", "15m") == 0
    assert "The last 15 min" in capsys.readouterr().out
    assert stage.queries


def test_the_page_says_where_demand_was_counted_and_what_the_gateway_holds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = deepcopy(pool())
    run(Stage(stored, [], []), tmp_path)
    assert "at the gateway" not in capsys.readouterr().out
    parts = ("decision", "scheduling", "container", "model", "endpoint", "firstByte")
    start = {f"{part}Seconds": f"0.{number}5" for number, part in enumerate(parts)}
    stored["status"]["scaling"] |= {
        "demandSource": "Gateway",
        "heldRequests": 7,
        "lastStart": start,
    }
    run(Stage(stored, [], []), tmp_path)
    page = capsys.readouterr().out
    assert "counted at the pool's listeners" in page
    assert "7 requests" in page
    assert "1.8 s" in page
    assert "decision 0.05, scheduling 0.15" in " ".join(page.split())


def test_a_pool_with_variants_shows_them_and_its_batch_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = deepcopy(pool())
    subject["spec"]["variants"] = [{"name": "cpu"}]
    subject["status"]["variants"] = [{"name": "cpu", "replicas": 3, "readyReplicas": 2}]
    assert run(Stage(subject, [], []), tmp_path) == 0
    said = capsys.readouterr().out
    assert "2 Ready of 3" in said
    assert "5000 lines, 20.50 lines/s" in said
    assert "0.34 replicas to end in time, 1 added" in said


def test_without_a_prometheus_the_page_says_how_to_name_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(Stage(pool(), [], []), tmp_path)
    assert "--prometheus URL" in capsys.readouterr().out


def test_a_pool_just_met_has_a_page_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    young = {**pool(), "status": {}}
    assert run(Stage(young, [], []), tmp_path) == 0
    said = capsys.readouterr().out
    assert "not known yet" in said
    assert "no operator has observed this pool yet" in said
    assert "healthy" not in said
    assert "desired -" in said
    assert "None" not in said


def test_a_pool_that_is_deleted_and_an_edit_that_is_not_observed_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = deepcopy(pool())
    subject["metadata"] |= {"deletionTimestamp": "2026-11-21T11:00:00Z", "generation": 4}
    subject["status"]["batch"] = {}
    assert run(Stage(subject, [], []), tmp_path) == 0
    said = capsys.readouterr().out
    assert "the pool is being deleted" in said
    assert "the status is of generation 3, the spec of 4" in said
    assert "None" not in said


IN_FORCE = {
    "scaling.mode": ("Auto", "Spec"),
    "scaling.algorithm": ("CapacityAtObjective", "BuiltIn"),
    "batching.mode": ("Auto", "BuiltIn"),
    "replicas": ("2", "Spec"),
    "scaling.minReplicas": ("4", "Schedule prod/day"),
    "scaling.maxReplicas": ("5", "Rollback"),
    "objectives.RequestLatency": ("700 ms for 99.9 %", "Kept"),
}


def with_effective() -> Object:
    """Return a pool whose status has other values than its spec."""
    subject = deepcopy(pool())
    subject["status"]["effective"] = [
        {"field": field, "value": value, "origin": origin}
        for field, (value, origin) in IN_FORCE.items()
    ]
    return subject


def test_values_are_those_in_force_with_the_origin_of_unrequested_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Stage(with_effective(), [], []), tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    for part in (
        "between 4 and 5",
        "objective: request 700 ms for 99.9 %",
        "in force spec.scaling.minReplicas 4 Schedule prod/day",
        "in force spec.scaling.maxReplicas 5 Rollback",
        "in force spec.objectives.RequestLatency 700 ms for 99.9 % Kept",
    ):
        assert part in said, part
    assert "in force spec.replicas" not in said


def test_without_the_permission_for_policies_the_page_says_what_it_lacks_unless_the_status_has_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for subject, lacks in ((pool(), True), (with_effective(), False)):
        stage = Stage(subject, [], [])
        stage.failing = {POLICIES: 403, NAMESPACE: 403}
        assert run(stage, tmp_path) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert ("bounds, objectives and schedules of policies are left out" in said) is lacks


def test_policies_that_cannot_be_read_for_another_reason_end_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (POLICIES, NAMESPACE):
        stage = Stage(pool(), [], [])
        stage.failing = {path: 503}
        assert run(stage, tmp_path) == 1
        assert "status 503" in capsys.readouterr().err


@pytest.mark.parametrize("current", ["", "gone"])
def test_a_named_context_needs_no_current_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], current: str
) -> None:
    with kubeconfig(Stage(pool(), [], []), tmp_path) as file:
        file.write_text(file.read_text().replace('"current-context": "here"', f'"current-context": "{current}"'))  # fmt: skip
        words = ["explain", "chat", "--kubeconfig", str(file)]
        assert main(words) == 1
        assert "the kubeconfig has no usable cluster" in capsys.readouterr().err
        assert main([*words, "--context", "here"]) == 0
    assert "team-a/chat" in capsys.readouterr().out


def test_a_port_that_is_no_number_is_an_error_of_prometheus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = "http://prometheus.monitoring.svc:http"
    assert run(Stage(pool(), [], []), tmp_path, "--prometheus", url) == 0
    assert f"Prometheus at {url} cannot be queried" in " ".join(capsys.readouterr().out.split())


def test_a_host_of_two_words_that_is_no_service_is_queried_directly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()

    def unresolved(url: str, _: str) -> None:
        asked.append(url)
        raise HTTPError(url)

    monkeypatch.setattr(cluster, "direct", unresolved)
    for url in ("https://prometheus.example", "https://prometheus.example.svc"):
        run(Stage(pool(), [], []), tmp_path, "--prometheus", url)
        assert "not found" in capsys.readouterr().out
    assert asked == ["https://prometheus.example"]


def test_a_pool_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with kubeconfig(Stage(pool(), [], []), tmp_path) as file:
        assert main(["explain", "chta", "--kubeconfig", str(file)]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "inferencepools team-a/chta not found" in said.err


@pytest.mark.parametrize("text", [None, "a: [", "no mapping", "[1, 2]", "{}", "clusters: 3"])
def test_a_kubeconfig_that_is_none_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    file = tmp_path / "none"
    if text is not None:
        file.write_text(text)
    assert main(["explain", "chat", "--kubeconfig", str(file)]) == 1
    assert "the kubeconfig has no usable cluster" in capsys.readouterr().err
