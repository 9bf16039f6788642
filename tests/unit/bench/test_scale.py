"""The bench of many pools: whose turn it is, when nothing moves any more, and copies that are whole pools."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock_operator import kinds
from penstock_operator.decide.children.revision import labelled
from penstock_operator.observe.objects import ObjectStore
from penstock_operator.observe.views import owned_pods
from tests.bench.scale.audit import writes_since
from tests.bench.scale.copies import Original, batches, copy
from tests.bench.scale.operator import added_up
from tests.bench.scale.stages import Patience, Stages
from tests.unit.decide.world import pool

UID = "00000000-0000-0000-0000-00000000000"
WHOLE = Stages(pools=5, decided=5, deployments=5, pods=5, up=5, ready=5, obeying=5)


def test_it_is_the_turn_of_whoever_lacks_most_of_what_it_was_given() -> None:
    assert Stages(9, 9, 9, 2, 2, 2, 2).behind(10) == "the Deployment controller"
    assert Stages(9, 3, 9, 9, 9, 9, 9).behind(10).startswith("the operator, to decide")
    assert Stages(2, 2, 2, 2, 2, 2, 2).behind(10) == "the bench, to make pools"


def test_pools_are_whole_when_the_operator_has_decided_and_every_pod_obeys() -> None:
    assert WHOLE.all(5)
    assert not WHOLE.all(6)
    assert not Stages(5, 5, 5, 5, 5, 5, 4).all(5)


def test_patience_lasts_as_long_as_anything_moves() -> None:
    patience = Patience(60.0)
    assert not patience.spent("a", 0.0)
    assert not patience.spent("b", 59.0)
    assert not patience.spent("b", 119.0)
    assert patience.spent("b", 119.1)


def test_series_are_added_up_over_their_labels() -> None:
    figures, decided = added_up(
        "# HELP penstock_operator_replicas_ready r\n"
        'penstock_operator_replicas_ready{namespace="a",pool="b"} 2.0\n'
        'penstock_operator_replicas_ready{namespace="a",pool="c"} 1.0\n'
        'penstock_operator_last_decision_timestamp_seconds{namespace="a",pool="b"} 1.5e9\n'
        "python_info 1.0\n"
    )
    assert figures == {"replicas_ready": 3.0, "last_decision_timestamp_seconds": 1.5e9}
    assert decided == (1.5e9,)


def test_writes_are_counted_through_a_rotation_of_the_log(tmp_path: Path) -> None:
    def line(agent: str, at: str) -> str:
        told = {"userAgent": agent, "verb": "patch", "requestURI": at, "requestReceivedTimestamp": at}  # fmt: skip
        return json.dumps(told, separators=(",", ":")) + "\n"

    log, ours = tmp_path / "audit.log", "penstock-operator"
    old, new = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:02:00.000000Z"
    (tmp_path / "audit-2026-01-01T00-01-59.999.log").write_text(line(ours, old) + line(ours, new))
    log.write_text(line("somebody", new) + line(ours, new))
    since = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert writes_since(log, since) == [f"patch {new}", f"patch {new}"]


def meta(name: str, number: int, owner: int | None, **more: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": name, "namespace": "many", "uid": UID + str(number), "resourceVersion": str(number + 1),
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"penstock.dev/pool-uid": UID + "0"}, **more,
    }  # fmt: skip
    if owner is not None:
        made["ownerReferences"] = [{"uid": UID + str(owner), "controller": True}]
    return made


@pytest.fixture(scope="module")
def original() -> Original:
    template = labelled(
        pool("pool-0"), {"metadata": {"labels": {"app": "pool-0"}}, "spec": {"x": "pool-0"}}
    )
    name = template["metadata"]["labels"]["penstock.dev/revision"]
    spec = {"model": {"source": {"type": "Module", "module": {"factory": "a:b"}}}}
    objects = [
        {"kind": "InferencePool", "metadata": meta("pool-0", 0, None), "spec": spec},
        {"kind": "Deployment", "metadata": meta("pool-0-penstock", 1, 0), "spec": {}},
        {"kind": "ReplicaSet", "metadata": meta("pool-0-penstock-abc", 2, 1)},
        {"kind": "Pod", "metadata": meta("pool-0-penstock-abc-x", 3, 2), "spec": {},
         "status": {"podIP": "10.128.0.1", "phase": "Running"}},
        {"kind": "Service", "metadata": meta("pool-0", 4, 0), "spec": {"clusterIP": "10.96.0.9"}},
        {"kind": "ControllerRevision", "metadata": meta(name, 5, 0), "data": {"template": template}},
    ]  # fmt: skip
    stored = {f"/registry/{one['kind']}/many/{one['metadata']['name']}": json.dumps(one) for one in objects}  # type: ignore[index]  # fmt: skip
    return Original.of("pool-0", stored)


def test_a_copy_is_a_pool_of_its_own_whose_pods_are_its_own(original: Original) -> None:
    made = copy(original, "pool-7", 7, "10.128.0.8")
    assert not [one for one in made.stored.values() if "pool-0" in one or UID in one]
    assert not [key for key in made.stored if "pool-0" in key]
    store = ObjectStore()
    for text in (*original.stored.values(), *made.stored.values()):
        raw = json.loads(text)
        if raw["kind"] in ("InferencePool", "Deployment", "ReplicaSet", "Pod"):
            store.see({**kinds.BY_KIND, **{one.kind: one for one in kinds.WATCHED}}[raw["kind"]], raw)  # fmt: skip
    copied = next(one for one in store.pools.values() if one.name == "pool-7")
    assert [(pod.uid, pod.ip) for pod in owned_pods(store, copied.uid)] == [(made.pod_uid, "10.128.0.8")]  # fmt: skip


def test_a_copys_template_is_named_as_the_operator_would_name_it(original: Original) -> None:
    made = copy(original, "pool-7", 7, "10.128.0.8")
    kept = next(
        json.loads(one)
        for one in made.stored.values()
        if json.loads(one)["kind"] == "ControllerRevision"
    )
    template = {"metadata": {"labels": {"app": "pool-7"}}, "spec": {"x": "pool-7"}}
    assert kept["data"]["template"] == labelled(pool("pool-7"), template)
    assert kept["metadata"]["name"] in next(key for key in made.stored if "Revision" in key)


def test_copies_are_stored_in_portions(original: Original) -> None:
    copies = [copy(original, f"pool-{one}", one, f"10.128.0.{one}") for one in range(1, 8)]
    size = max(sum(map(len, one.stored.values())) for one in copies)
    portions = list(batches(iter(copies), 3 * size))
    assert len(portions) == 3
    assert {key for one in portions for key in one} == {key for one in copies for key in one.stored}
