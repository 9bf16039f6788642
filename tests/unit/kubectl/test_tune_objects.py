"""`kubectl penstock tune` and the objects of others: those of its names, logs and policies that the user may not read or write."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest

from penstock_tuner.record import EventKind
from tests.unit.kubectl.stage import POLICIES, Object, pool
from tests.unit.kubectl.tuned import BEST, CONFIG_MAP, FAST, JOB, PODS, Cluster, log, run

ENDED = {"conditions": [{"type": "Complete", "status": "True"}]}


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


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (403, "the log of pod team-a/chat-tune-x: status 403"),
        (502, "its trials cannot be read: the log of pod team-a/chat-tune-x: status 502"),
        (404, "its trials are gone"),
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
    assert ("--delete" in shown) is (status == 404)
    cluster.failing = {}
    assert run(cluster, tmp_path) == 0
    assert len(cluster.created) == 1


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
