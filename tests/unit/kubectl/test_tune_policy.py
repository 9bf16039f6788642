"""The policy that `kubectl penstock tune` writes, and notes on what it does not change."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubectl.stage import policy, pool
from tests.unit.kubectl.tuned import BEST, Cluster, log, run


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


def test_a_value_that_other_fields_of_the_pool_limit_has_a_note(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Cluster(pool(batching={"size": {"min": 32}}), log(BEST)), tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "with this policy spec.batching.size.max is 32, not 24: other fields of the pool" in said
