"""The scale bench: the slowest stage, the end of progress, and copies that are complete pools."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock_operator.kube import kinds
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.views import owned_pods
from tests.bench.scale.audit import writes_since
from tests.bench.scale.copies import Original, batches, copy
from tests.bench.scale.manifest_hashes import NotSealedSoError, manifests
from tests.bench.scale.operator import added_up
from tests.bench.scale.stages import Patience, Stages
from tests.unit.operator.decide.world import NOW, World, pool

UID = "00000000-0000-0000-0000-0000000000"
WHOLE = Stages(pools=5, decided=5, deployments=5, pods=5, up=5, ready=5, acknowledged=5)


def test_the_stage_with_the_largest_backlog_is_the_slowest() -> None:
    assert Stages(9, 9, 9, 2, 2, 2, 2).behind(10) == "the Deployment controller"
    assert Stages(9, 3, 9, 9, 9, 9, 9).behind(10).startswith("the operator, to decide")
    assert Stages(2, 2, 2, 2, 2, 2, 2).behind(10) == "the bench, to make pools"


def test_pools_are_complete_when_the_operator_has_decided_and_every_pod_acknowledged() -> None:
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
        entry = {"userAgent": agent, "verb": "patch", "requestURI": at, "requestReceivedTimestamp": at}  # fmt: skip
        return json.dumps(entry, separators=(",", ":")) + "\n"

    log, ours = tmp_path / "audit.log", "penstock-operator"
    old, new = "2026-01-01T00:00:00.000000Z", "2026-01-01T00:02:00.000000Z"
    (tmp_path / "audit-2026-01-01T00-01-59.999.log").write_text(line(ours, old) + line(ours, new))
    log.write_text(line("kubectl", new) + line(ours, new))
    since = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    assert writes_since(log, since) == [f"patch {new}", f"patch {new}"]


def raw(manifest: Mapping[str, Any], number: int, owner: int | None, status: Any = None) -> Any:
    meta: dict[str, Any] = {
        "namespace": "team-a", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {},
        **manifest["metadata"], "uid": f"{UID}{number:02}",
    }  # fmt: skip
    if owner is not None:
        meta["ownerReferences"] = [{**meta.get("ownerReferences", [{}])[0], "uid": f"{UID}{owner:02}", "controller": True}]  # fmt: skip
    return {**manifest, "metadata": meta} | ({"status": status} if status else {})


@pytest.fixture(scope="module")
def original() -> Original:
    """Return a pool whose children are what the operator wrote, with a ReplicaSet and a pod that is up."""
    world = World(pool=pool("pool-0", UID + "00"))
    world.settle()
    world.settle()
    view = world.view()
    spec = view.pool.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    status = view.pool.status.model_dump(mode="json", by_alias=True, exclude_none=True)
    labels = {"labels": {"penstock.dev/pool-uid": UID + "00"}}
    objects = [
        raw({"kind": "InferencePool", "metadata": {"name": "pool-0"}, "spec": spec}, 0, None, status),
        *(raw(child.manifest, 10 + number, 0) for number, child in enumerate(view.children.values())),
        raw(view.revisions[0].manifest, 20, 0),
    ]  # fmt: skip
    deployed = next(manifest for manifest in objects if manifest["kind"] == "Deployment")
    number = int(deployed["metadata"]["uid"].removeprefix(UID))
    replica_set = {"name": "pool-0-penstock-abc", **labels}
    pod = {"name": "pool-0-penstock-abc-x", **labels}
    objects += [
        raw({"kind": "ReplicaSet", "metadata": replica_set}, 30, number),
        raw({"kind": "Pod", "metadata": pod, "spec": {}}, 31, 30, {"podIP": "10.128.0.1", "phase": "Running"}),
    ]  # fmt: skip
    for manifest in objects:
        if manifest["kind"] == "Service":
            manifest["spec"] = {**manifest["spec"], "clusterIP": "10.96.0.9"}
    stored = {
        f"/registry/{manifest['kind']}/many/{manifest['metadata']['name']}": json.dumps(manifest)
        for manifest in objects
    }
    return Original.of("pool-0", stored, NOW)


def objects_of(stored: Mapping[str, str]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in stored.values()]


def test_a_copys_children_have_the_seals_that_the_operator_writes(
    original: Original,
) -> None:
    copied = copy(original, "pool-7", 7, "10.128.0.8")
    sealed = manifests(objects_of(copied.stored), NOW)
    assert {kind for kind, _ in sealed} == {
        "ServiceAccount", "ConfigMap", "ControllerRevision", "Deployment", "Service", "PodDisruptionBudget",
    }  # fmt: skip


def test_a_child_that_was_edited_is_not_copied(original: Original) -> None:
    key = next(child.key for child in original.sealed if "Deployment" in child.key)
    spoilt = {**original.stored, key: original.stored[key].replace(original.sealed[3].seal, "0" * 10)}  # fmt: skip
    with pytest.raises(NotSealedSoError, match="Deployment pool-0-penstock carries 0000000000"):
        manifests(objects_of(spoilt), NOW)


def test_a_copy_is_a_separate_pool_with_separate_pods(original: Original) -> None:
    copied = copy(original, "pool-7", 7, "10.128.0.8")
    assert not [text for text in copied.stored.values() if "pool-0" in text or UID in text]
    assert not [key for key in copied.stored if "pool-0" in key]
    store, known = ObjectStore(), {kind.kind: kind for kind in kinds.WATCHED}
    for manifest in (*objects_of(original.stored), *objects_of(copied.stored)):
        manifest["metadata"]["resourceVersion"] = "1"
        store.upsert(known[manifest["kind"]], manifest)
    observed = next(pool for pool in store.pools.values() if pool.name == "pool-7")
    pods = [(pod.uid, pod.ip) for pod in owned_pods(store, observed.uid)]
    assert pods == [(copied.pod_uid, "10.128.0.8")]


def test_copies_are_stored_in_portions(original: Original) -> None:
    copies = [
        copy(original, f"pool-{number}", number, f"10.128.1.{number}") for number in range(1, 8)
    ]
    size = max(sum(map(len, copied.stored.values())) for copied in copies)
    portions = list(batches(iter(copies), 3 * size))
    assert len(portions) == 3
    assert {key for portion in portions for key in portion} == {
        key for copied in copies for key in copied.stored
    }
