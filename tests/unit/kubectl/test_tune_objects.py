"""`kubectl penstock tune` and the objects of others: those of its names, logs that it may not read, a pod's neighbours."""

from copy import deepcopy
from pathlib import Path

import pytest

from tests.unit.kubectl.stage import Object, pool
from tests.unit.kubectl.tuned import BEST, CONFIG_MAP, JOB, Cluster, log, run

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
