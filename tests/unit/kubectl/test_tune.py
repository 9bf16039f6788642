"""`kubectl penstock tune`: the Job is the pool's own pod with another command, and its trials become a policy."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from penstock_api.types.policy import PolicySpec
from penstock_kubectl.pool_context import pool_object
from penstock_kubectl.tune import load_shape
from penstock_kubectl.tune.follow import waiting_for
from penstock_kubectl.tune.job import TuneOptions, arguments, tuner_job
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_kubectl.tune.picture import nice, svg
from penstock_operator.decide.manifests.pod_template.pod import pod_template
from penstock_operator.decide.manifests.revision import labelled
from penstock_tuner.options import parser as tuner_parser
from penstock_tuner.record import EventKind, StudyRecord
from penstock_tuner.settings import TunedSettings
from tests.unit.kubectl.stage import POLICIES, Object, Stage, policy, pool
from tests.unit.kubectl.tuned import (
    BEST,
    CONFIG_MAP,
    FAST,
    JOB,
    LATE,
    OBJECTIVE,
    POLICY,
    Cluster,
    log,
    run,
)
from tests.unit.operator.decide.world import CONFIG

GENERATING = {"task": "TextGeneration", "source": {"type": "HuggingFace", "huggingFace": {"repository": "a/b"}}}  # fmt: skip
SECURED = {"tls": {"secretRef": {"name": "t"}}, "apiKeys": {"secretRef": {"name": "k", "key": "keys"}}}  # fmt: skip


def test_it_prints_the_front_and_a_policy_with_the_best_as_its_candidate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(pool(), log(FAST, LATE, BEST))
    assert run(cluster, tmp_path, "--price", "3.60", "--plot", str(tmp_path / "front.svg")) == 0
    shown = capsys.readouterr()
    head, _, first, second, *_ = shown.out.splitlines()
    assert head.strip() == "team-a/chat: within 1000 ms for 99 %"
    assert first.split() == ["24", "5", "200.0", "100.00", "%", "400.0", "800.0", "0.005"]
    assert second.split()[0] == "4"
    manifest = yaml.safe_load(shown.out.split("---\n")[1])
    spec = PolicySpec.model_validate(manifest["spec"])
    assert spec.namespace_selector is not None
    assert spec.namespace_selector.match_labels == {"kubernetes.io/metadata.name": "team-a"}
    assert manifest["spec"]["candidate"]["defaults"]["batching"]["size"]["max"] == 24
    assert POLICY not in cluster.objects
    assert "selects every pool of team-a" in shown.out
    assert "130 requests/s on time" not in shown.err
    assert "65.2 requests/s on time (status.scaling.rowsPerSecond" in shown.err
    ET.parse(tmp_path / "front.svg")  # noqa: S314  our own
    stored = StudyRecord.read(cluster.objects[CONFIG_MAP]["data"]["study.json"])
    assert stored.tried == (FAST, LATE, BEST)


def test_a_picture_that_cannot_be_written_costs_neither_the_result_nor_the_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, picture = Cluster(pool(), log(FAST, LATE, BEST)), tmp_path / "front.svg"
    picture.mkdir()
    assert run(cluster, tmp_path, "--plot", str(picture), "--apply") == 1
    shown = capsys.readouterr()
    assert "within 1000 ms for 99 %" in shown.out
    assert "front.svg" in shown.err
    assert POLICY in cluster.objects


def test_json_has_every_trial_and_apply_writes_the_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(pool(), log(FAST, LATE, BEST), policies=[policy("prod", candidate={})])
    assert run(cluster, tmp_path, "--output", "json", "--apply") == 0
    out = json.loads(capsys.readouterr().out)
    assert [each["batch_size"] for each in out["front"]] == [24, 4]
    assert len(out["tried"]) == 3
    assert cluster.objects[POLICY] == out["policy"]
    assert any("policy prod has a candidate" in note for note in out["notes"])
    assert run(cluster, tmp_path, "--output", "yaml") == 0
    assert yaml.safe_load(capsys.readouterr().out) == out["policy"]


def test_a_second_run_follows_the_same_job_and_measures_no_trial_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(pool(), log(FAST, BEST))
    assert run(cluster, tmp_path, "--output", "json") == 0
    first = capsys.readouterr().out
    assert run(cluster, tmp_path, "--output", "json") == 0
    assert capsys.readouterr().out == first
    assert len(cluster.created) == 1
    cluster.logs.clear()  # its pod is gone
    assert run(cluster, tmp_path, "--output", "json") == 0
    assert capsys.readouterr().out == first
    assert run(cluster, tmp_path, "--minutes", "10") == 0  # the same study, longer
    assert len(cluster.created) == 2
    assert run(cluster, tmp_path, "--delete") == 0
    assert not {JOB, CONFIG_MAP} & cluster.objects.keys()


def test_trials_that_cannot_be_read_end_the_command_and_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(pool(), log(FAST, BEST))
    assert run(cluster, tmp_path) == 0
    kept = cluster.objects[CONFIG_MAP]
    cluster.failing, cluster.text = {CONFIG_MAP: 503}, log()
    assert run(cluster, tmp_path) == 1
    assert "status 503" in capsys.readouterr().err
    assert cluster.objects[CONFIG_MAP] == kept


def test_the_objective_is_the_one_in_force_if_policies_may_not_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    effective = [{"field": "objectives.RequestLatency", "value": "700 ms for 99.9 %", "origin": "PolicyDefault prod"}]  # fmt: skip
    for status, words in (({"effective": effective}, {"--objective-ms=700", "--percent=99.9"}), ({}, None)):  # fmt: skip
        subject = pool(objectives=[])
        subject["status"] = {**subject["status"], **status}
        cluster = Cluster(subject, log(BEST))
        cluster.failing = {POLICIES: 403}
        assert (run(cluster, tmp_path) == 0) is (words is not None)
        assert ("warning: bounds, objectives" in capsys.readouterr().err) is (words is None)
        if words is not None:
            (container,) = cluster.created[0]["spec"]["template"]["spec"]["containers"]
            assert words < {*container["args"]}


def test_a_job_that_runs_under_other_options_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(pool(), log(FAST))
    assert run(cluster, tmp_path) == 0
    cluster.objects[JOB]["status"] = {}
    assert run(cluster, tmp_path, "--clients", "4") == 1
    assert "runs with other options" in capsys.readouterr().err
    assert len(cluster.created) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (log(last=EventKind.ERROR, message="the pod ended with 1: no such file"), "no such file"),
        ("/usr/bin/python3: No module named penstock_tuner\n", "the pool's image has no tuner"),
        (log(FAST, last=EventKind.NOTE), "1 trials are kept: run the command again"),
    ],
)
def test_a_failed_job_is_reported_and_replaced_by_the_next_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, said: str
) -> None:
    cluster = Cluster(pool(), text, end="Failed")
    assert run(cluster, tmp_path) == 1
    assert said in " ".join(capsys.readouterr().err.split())
    cluster.text, cluster.end = log(FAST, BEST), "Complete"
    assert run(cluster, tmp_path) == 0
    assert len(cluster.created) == 2


def test_settings_that_all_miss_the_objective_make_no_policy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Cluster(pool(), log(LATE)), tmp_path) == 1
    out = capsys.readouterr().out
    assert "none of 1 trials meets the objective" in out
    assert "---" not in out


def test_what_the_pool_sets_itself_is_named_because_no_default_replaces_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = pool(batching={"size": {"max": 8}})
    assert run(Cluster(subject, log(BEST)), tmp_path) == 0
    assert "the pool sets spec.batching.size.max" in capsys.readouterr().out


def test_what_it_lacks_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (pool(objectives=[]), [], "has no objective of metric RequestLatency"),
        (pool(model=GENERATING, objectives=[]), [], "has no objective: set TimeToFirstToken"),
        (pool(), ["--first-token", "5"], "are for pools of task TextGeneration"),
        (
            pool(),
            ["--batched-tokens", "256"],
            "--batched-tokens is for pools of task TextGeneration",
        ),
        (pool(parallelism={"tensor": 2, "nodes": 2}), [], "several pods"),
        (pool(), ["--delete"], "nothing to remove"),
    ]
    for subject, words, said in cases:
        status = 0 if words == ["--delete"] else 1
        assert run(Cluster(subject, log()), tmp_path, *words) == status
        shown = capsys.readouterr()
        assert said in " ".join((shown.out + shown.err).split())
    unseen = pool()
    unseen["status"] = {}
    assert run(Stage(unseen, [], []), tmp_path, "--objective", "500@99.9") == 1
    assert "has no pod template yet" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("words", "lengths"),
    [([], "--prompt-tokens=128 --output-tokens=64"), (["--prompt-tokens", "64,512", "--rate", "2"], "--rate=2 --prompt-tokens=64,512")],
)  # fmt: skip
def test_a_pool_that_generates_text_is_tuned_within_its_objectives_of_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], lengths: str
) -> None:
    objectives = [
        {"metric": "TimeToFirstToken", "milliseconds": 400},
        {"metric": "TimePerOutputToken", "milliseconds": 50, "percent": "99.5"},
    ]
    subject = pool(model=GENERATING, objectives=objectives)
    trial = replace(BEST, settings=TunedSettings(24, None, "OpenVINO"))
    cluster = Cluster(subject, log(trial))
    assert run(cluster, tmp_path, *words) == 0
    (container,) = cluster.created[0]["spec"]["template"]["spec"]["containers"]
    assert {"--first-token-ms=400", "--output-token-ms=50", "--percent=99.5"} < {*container["args"]}
    assert {*lengths.split()} < {*container["args"]}
    read = tuner_parser().parse_args(container["args"])
    assert read.objective_ms is None
    shown = capsys.readouterr()
    said = " ".join(shown.out.split())
    assert "first token 400 ms and output token 50 ms for 99.5 %" in said
    assert "spec.generation.computeBackend: OpenVINO" in said
    manifest = yaml.safe_load(shown.out.split("---\n")[1])
    assert manifest["spec"]["candidate"]["defaults"]["batching"] == {"size": {"max": 24}}
    assert ("lengths are assumed" in shown.err) == (not words)


def test_objectives_of_the_command_replace_those_of_the_pool(tmp_path: Path) -> None:
    subject = pool(model=GENERATING)
    cluster = Cluster(subject, log(replace(BEST, settings=TunedSettings(24, None))))
    assert run(cluster, tmp_path, "--output-token", "40@95") == 0
    (container,) = cluster.created[0]["spec"]["template"]["spec"]["containers"]
    assert {"--output-token-ms=40", "--percent=95"} < {*container["args"]}
    assert not any(word.startswith("--objective-ms") for word in container["args"])


@pytest.mark.parametrize(
    ("task", "earlier", "assumed"),
    [
        (
            "TextGeneration",
            LoadShape((3,), 12.5, "rows"),
            "tokens of prompts 128 and of answers 64",
        ),
        ("Tensor", LoadShape((1,), 2.0, "text", (9,), (8,)), "rows of a request 1, and"),
    ],
)
def test_the_load_of_an_earlier_pool_of_another_task_is_not_used(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    task: str,
    earlier: LoadShape,
    assumed: str,
) -> None:
    subject = pool(model=GENERATING) if task == "TextGeneration" else pool()
    cluster = Cluster(subject, log(BEST))
    data = {"study.json": StudyRecord("s", 1.0, (LATE,)).text(), "load.json": earlier.text()}
    labels = {"app.kubernetes.io/name": "penstock-tuner"}
    cluster.objects[CONFIG_MAP] = {
        "metadata": {"name": "chat-tune", "labels": labels},
        "data": data,
    }
    run(cluster, tmp_path, *(("--first-token", "400") if task == "TextGeneration" else ()))
    said = capsys.readouterr().err
    assert assumed in said
    assert f"({earlier.source})" not in said


def test_the_load_of_text_has_the_lengths_of_the_history() -> None:
    shape = load_shape.of_text_history(211.4, 33.6, 4.0, 3600)
    assert shape is not None
    assert (shape.prompt_tokens, shape.output_tokens, shape.rate) == ((211,), (34,), 4.0)
    assert LoadShape.read(shape.text()) == shape
    assert load_shape.of_text_history(211.4, None, 4.0, 3600) is None
    assert LoadShape.read('{"rate": 1.0, "source": "x", "prompt_tokens": [3]}') is None


def test_the_job_is_the_pools_pod_without_what_makes_it_serve() -> None:
    requested: Any = {
        "labels": {"app": "chat"},
        "annotations": {"note": "a"},
        "nodeSelector": {"gpu": "h100"},
        "priorityClassName": "first",
    }
    given = pool_object(pool(**SECURED, template=requested))  # fmt: skip
    template = labelled(given, pod_template(given, CONFIG))
    options = TuneOptions(OBJECTIVE, 5.0, 32, backends=("Eager", "OpenVINO"), threads=(1, 2))
    words = arguments(options, LoadShape((3,), 12.5, "x"), "chat-1")
    job = tuner_job(given, template, words, options.minutes)
    pod, (own,) = job["spec"]["template"], template["spec"]["containers"]
    (container,) = pod["spec"]["containers"]
    for same in ("image", "env", "resources", "securityContext"):
        assert container[same] == own[same]
    for same in ("serviceAccountName", "securityContext", "nodeSelector"):
        assert pod["spec"][same] == template["spec"][same]
    assert not {"ports", "startupProbe", "livenessProbe", "readinessProbe"} & container.keys()
    assert pod["metadata"]["labels"] == job["metadata"]["labels"]
    assert pod["metadata"]["annotations"]["note"] == "a"
    assert template["spec"]["priorityClassName"] == "first"
    assert "priorityClassName" not in pod["spec"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {"penstock-scratch", "penstock-tune"}
    assert mounted == {volume["name"] for volume in pod["spec"]["volumes"]}
    assert container["command"] == ["python3", "-m", "penstock_tuner"]
    read = tuner_parser().parse_args(container["args"])
    assert (read.rows, read.rate, read.backends, read.threads) == ((3,), 12.5, ("Eager", "OpenVINO"), (1, 2))  # fmt: skip
    assert (read.objective_ms, read.percent, read.minutes, read.study) == (1000, 99.0, 5.0, "chat-1")  # fmt: skip


def test_the_load_has_the_rows_and_the_rate_of_the_history() -> None:
    shape = load_shape.of_history(2.6, 41.237, 3600)
    assert shape is not None
    assert (shape.rows, shape.rate) == ((3,), 41.2)
    assert LoadShape.read(shape.text()) == shape
    assert load_shape.of_history(None, 3.0, 3600) is None
    assert load_shape.of_history(1.0, 0.0, 3600) is None
    assert "assumed" in LoadShape().source


def test_a_pod_that_waits_says_for_what() -> None:
    unscheduled: Any = {"type": "PodScheduled", "status": "False", "message": "1 Insufficient nvidia.com/gpu."}  # fmt: skip
    assert "1 Insufficient nvidia.com/gpu." in waiting_for({"status": {"conditions": [unscheduled]}}, [])  # fmt: skip
    pulling = {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}
    assert "no such image" in waiting_for({"status": {"containerStatuses": [pulling]}}, [])
    quota: Object = {"type": "Warning", "message": "exceeded quota"}
    assert "exceeded quota" in waiting_for(None, [quota])


def test_the_picture_has_a_point_for_each_trial_and_survives_none() -> None:
    drawn = svg("a <b>", [BEST, FAST, LATE], OBJECTIVE)
    points = [each for each in ET.fromstring(drawn).iter() if each.tag.endswith("circle")]  # noqa: S314  our own
    assert sorted(each.get("class") or "" for each in points) == ["best", "best", "late", "met", "met"]  # fmt: skip
    ET.fromstring(svg("empty", [], OBJECTIVE))  # noqa: S314  our own
    assert [nice(value) for value in (0.7, 1, 1.1, 24, 260, 999)] == [1, 1, 2, 25, 500, 1000]
    still = replace(FAST, measurement=replace(FAST.measurement, p99_milliseconds=1e9))
    ET.fromstring(svg("late", [still], OBJECTIVE))  # noqa: S314  our own
