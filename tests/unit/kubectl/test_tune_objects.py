"""`kubectl penstock tune` and the objects of others: those of its names, logs and policies that the user may not read or write."""

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from urllib3.exceptions import ProtocolError

from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.tune.command import INTERRUPTED
from penstock_tuner.record import EventKind
from tests.unit.kubectl.stage import POLICIES, Object, pool
from tests.unit.kubectl.tuned import BEST, CONFIG_MAP, FAST, JOB, PODS, POLICY, Cluster, log, run

ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


LOG = f"{PODS}/chat-tune-x/log"


@pytest.fixture
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock_kubectl.tune.follow.time.sleep", lambda _seconds: None)


@pytest.mark.parametrize("words", [[], ["--delete"]])
@pytest.mark.parametrize(
    ("path", "other"),
    [
        (JOB, {"kind": "Job", "status": ENDED}),
        (JOB, {"kind": "Job", "status": {}}),
        (CONFIG_MAP, {"kind": "ConfigMap", "data": {"a": "b"}}),
    ],
)
def test_objects_of_others_that_have_the_tuners_names_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: str, other: Object, words: list[str]
) -> None:
    cluster = Cluster(pool(), log(BEST))
    metadata = {"name": "chat-tune", "namespace": "team-a", "labels": {"app": "trainer"}}
    cluster.objects[path] = {**other, "metadata": metadata}
    before = deepcopy(cluster.objects)
    assert run(cluster, tmp_path, *words) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"{other['kind']} team-a/chat-tune exists and is not a tuner's" in said
    assert cluster.objects == before


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "the log of pod team-a/chat-tune-x: status 403"),
        (502, "its trials cannot be read: the log of pod team-a/chat-tune-x: status 502"),
        (404, "the log with its trials is gone"),
    ],
)
def test_trials_in_a_log_that_cannot_be_read_are_not_called_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, said: str
) -> None:
    cluster = Cluster(pool(), log(BEST))
    cluster.failing = {f"{PODS}/chat-tune-x/log": status}
    assert run(cluster, tmp_path) == 1
    shown = " ".join(capsys.readouterr().err.split())
    assert said in shown
    assert ("kubectl delete job -n team-a chat-tune" in shown) is (status == 404)
    cluster.failing = {}
    assert run(cluster, tmp_path) == 0
    assert len(cluster.created) == 1


@pytest.mark.usefixtures("no_pause")
@pytest.mark.parametrize("status", [502, 404])
def test_trials_of_other_options_do_not_stand_in_for_a_log_that_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int
) -> None:
    cluster = Cluster(pool(), log(BEST))
    assert run(cluster, tmp_path) == 0
    kept = cluster.objects[CONFIG_MAP]
    cluster.failing = {LOG: status}
    assert run(cluster, tmp_path) == 0  # these are the trials of the Job
    capsys.readouterr()
    assert run(cluster, tmp_path, "--clients", "4", "--apply") == 1
    assert len(cluster.created) == 2
    assert not capsys.readouterr().out
    assert POLICY not in cluster.objects
    assert cluster.objects[CONFIG_MAP] == kept


def test_a_part_of_the_trials_does_not_stand_in_for_a_log_that_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    cluster = Cluster(pool(), log(FAST, last=EventKind.NOTE), end="SuccessCriteriaMet")
    with monkeypatch.context() as patched:
        patched.setattr("penstock_kubectl.tune.follow.time.sleep", interrupt)
        assert run(cluster, tmp_path) == INTERRUPTED
    cluster.objects[JOB]["status"], cluster.failing = ENDED, {LOG: 404}
    assert run(cluster, tmp_path) == 1
    assert "the log with its trials is gone" in " ".join(capsys.readouterr().err.split())
    cluster.failing, cluster.logs[LOG] = {}, log(FAST, BEST)
    assert run(cluster, tmp_path, "--output", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["tried"]) == 2


class BrokenLog:
    """A log whose connection breaks after the first trial."""

    status = 200

    def stream(self) -> Iterator[bytes]:
        yield log(FAST, last=EventKind.NOTE).encode()
        raise ProtocolError("connection broken")


@pytest.mark.parametrize("lost", ["response", "connection"])
def test_a_log_of_a_job_that_has_ended_is_read_again_if_it_cannot_be_read(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    lost: str,
) -> None:
    cluster, request = Cluster(pool(), log(FAST, BEST)), ClusterClient._request

    def broken(self: ClusterClient, method: str, path: str, **more: Any) -> Any:
        return BrokenLog() if LOG in path else request(self, method, path, **more)

    def restore(_seconds: float) -> None:
        cluster.failing = {}
        monkeypatch.setattr(ClusterClient, "_request", request)

    if lost == "connection":
        monkeypatch.setattr(ClusterClient, "_request", broken)
    else:
        cluster.failing = {LOG: 502}
    monkeypatch.setattr("penstock_kubectl.tune.follow.time.sleep", restore)
    assert run(cluster, tmp_path, "--output", "json") == 0
    assert len(json.loads(capsys.readouterr().out)["tried"]) == 2


def test_a_container_that_has_not_started_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(pool(), log(BEST), end="SuccessCriteriaMet")  # not ended yet
    cluster.failing = {f"{PODS}/chat-tune-x/log": 400}

    def pause(_seconds: float) -> None:
        cluster.failing = {}
        cluster.objects[JOB]["status"] = ENDED

    monkeypatch.setattr("penstock_kubectl.tune.follow.time.sleep", pause)
    assert run(cluster, tmp_path) == 0
    assert "waiting for the log of pod team-a/chat-tune-x: status 400" in capsys.readouterr().err


def test_trials_that_took_all_of_the_time_are_not_continued_without_more_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = replace(FAST, failure="no such operator", rounds=(0.0,))
    text = log(failed, last=EventKind.ERROR, message="no pod served in any of 1 trials")
    for minutes, remedy in (("0.1", "give more --minutes"), ("5", "run the command again")):
        assert run(Cluster(pool(), text, end="Failed"), tmp_path, "--minutes", minutes) == 1
        said = " ".join(capsys.readouterr().err.split())
        assert "1 trials are kept: " in said
        assert remedy in said
        assert ("remove them with --delete" in said) is (minutes == "0.1")


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_policy_that_the_user_may_not_apply_is_an_error_after_the_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    class Reader(Cluster):
        def write(self, method: str, target: str, body: Object | None) -> tuple[int, Object]:
            if target.startswith(POLICIES):
                return 403, {"message": "may not patch"}
            return super().write(method, target, body)

    assert run(Reader(pool(), log(BEST)), tmp_path, "--apply", "--output", output) == 1
    shown = capsys.readouterr()
    assert "InferencePolicy tuned-team-a-chat: may not patch" in " ".join(shown.err.split())
    assert "24" in shown.out
    assert "applied" not in shown.out
