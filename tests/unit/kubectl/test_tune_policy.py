"""The policy that `kubectl penstock tune` writes: measured with what is in force, and with notes on what it does not change."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock_tuner.settings import TunedSettings
from tests.unit.kubectl.stage import policy, pool
from tests.unit.kubectl.tuned import BEST, Cluster, log, run

GENERATING = {"task": "TextGeneration", "source": {"type": "HuggingFace", "huggingFace": {"repository": "a/b"}}}  # fmt: skip


def size(most: int) -> dict[str, Any]:
    return {"defaults": {"batching": {"size": {"max": most}}}}


@pytest.mark.parametrize(
    ("other", "note"),
    [
        (policy("prod", **size(32)), "spec.batching.size.max is 64, not 24: policy prod sets it too: set a higher spec.priority"),
        (policy("prod", priority=5, **size(32)), "spec.batching.size.max is 32, not 24: policy prod sets it too"),
        (policy("prod", bounds={"batchSize": {"max": 16}}), "spec.batching.size.max is 16, not 24: policy prod bounds it"),
        (policy("prod", priority=-1, **size(32)), ""),
        (policy("prod", **size(24)), ""),
        (policy("prod", namespaceSelector={"matchLabels": {"tier": "test"}}, **size(32)), ""),
    ],
)  # fmt: skip
def test_a_tuned_value_that_the_policy_does_not_bring_about_has_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], other: Any, note: str
) -> None:
    assert run(Cluster(pool(), log(BEST), policies=[other]), tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert note in said
    assert ("with this policy" in said) is bool(note)


OWN = "tuned-team-a-chat"


@pytest.mark.parametrize(
    ("live", "note"),
    [
        (policy(OWN, priority=10, candidate=size(48)), ""),
        (policy(OWN, candidate=size(48)), "is 64, not 24: policy prod sets it too: set a higher spec.priority in this one"),
        (policy(OWN, priority=10, bounds={"batchSize": {"max": 16}}), f"is 16, not 24: policy {OWN} bounds it"),
        (policy(OWN, priority=10, poolSelector={"matchLabels": {"app": "other"}}), ""),
    ],
)  # fmt: skip
def test_the_notes_are_on_the_live_policy_with_the_new_candidate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], live: Any, note: str
) -> None:
    cluster = Cluster(pool(), log(BEST), policies=[live, policy("prod", **size(32))])
    assert run(cluster, tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert note in said
    assert ("with this policy" in said) is bool(note)


def test_a_tie_with_the_policy_leaves_the_value_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    subject = pool()
    effective = {"field": "batching.size.max", "value": "32", "origin": "PolicyDefault prod"}
    subject["status"] = {**subject["status"], "effective": [effective]}
    cluster = Cluster(subject, log(BEST), policies=[policy("prod", **size(32))])
    assert run(cluster, tmp_path, "--objective", "1000@99") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "spec.batching.size.max is 32, not 24: policy prod sets it too" in said


def test_a_value_that_other_fields_of_the_pool_limit_has_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Cluster(pool(batching={"size": {"min": 32}}), log(BEST)), tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "with this policy spec.batching.size.max is 32, not 24: other fields of the pool" in said


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], {"--disciplines=ShortestJobFirst", "--batched-tokens=2048"}),
        (["--disciplines", "FairShare", "--batched-tokens", "256,512"], {"--disciplines=FairShare", "--batched-tokens=256,512"}),
    ],
)  # fmt: skip
def test_settings_that_are_not_searched_are_those_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], expected: set[str]
) -> None:
    own = {"maxBatchedTokens": 2048}
    rule = policy("prod", defaults={"batching": {"discipline": "ShortestJobFirst"}})
    settings = TunedSettings(24, None, discipline="ShortestJobFirst", batched_tokens=2048)
    subject = pool(model=GENERATING, batching=own)
    cluster = Cluster(subject, log(replace(BEST, settings=settings)), policies=[rule])
    assert run(cluster, tmp_path, "--output-token", "40", *words) == 0
    (container,) = cluster.created[0]["spec"]["template"]["spec"]["containers"]
    assert expected < {*container["args"]}
    said = capsys.readouterr().out
    assert "the pool sets" not in said
    assert "with this policy" not in said


def test_a_pool_with_built_in_settings_is_measured_with_those_of_a_pod(tmp_path: Path) -> None:
    cluster = Cluster(pool(), log(BEST))
    assert run(cluster, tmp_path) == 0
    (container,) = cluster.created[0]["spec"]["template"]["spec"]["containers"]
    assert not [word for word in container["args"] if word.startswith(("--disc", "--batched"))]
