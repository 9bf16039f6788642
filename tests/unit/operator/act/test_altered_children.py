"""Children that a mutating webhook alters: written again with back-off, and at once where another writer edits them."""

import asyncio
import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import PoolActs
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.act.writer import Writer
from penstock_operator.decide.actions import Write
from penstock_operator.decide.config import PoolPeers
from penstock_operator.decide.manifests.writes import is_edited
from penstock_operator.errors import Altered
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.convert import child_object
from penstock_operator.observed import Rejection
from penstock_operator.reconcile_state import PoolState
from tests.unit.operator.act.test_executor import Recorded
from tests.unit.operator.decide.variant_pools.parent_world import parent
from tests.unit.operator.decide.world import CONFIG, World, pool

DEPLOYMENT = ("Deployment", "chat-penstock")


def keep_seven_replica_sets(stored: Any) -> None:
    if stored["kind"] == "Deployment":
        stored["spec"]["revisionHistoryLimit"] = 7


def replace_a_label(stored: Any) -> None:
    stored["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "helm"


@dataclass
class Altering:
    """Stands for an API server with a mutating webhook; `live` runs passes every 5 s on one pool."""

    alter: Callable[[Any], None]
    world: World = field(default_factory=lambda: World(pool=pool(replicas=2)))
    state: PoolState = field(default_factory=PoolState)
    objects: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    version: int = 100
    written: list[tuple[str, str]] = field(default_factory=list)
    """(verb, kind) of every write."""

    async def write(self, kind: ResourceKind, verb: str, request: ApiRequest, _: Urgency) -> Any:
        self.written.append((verb, kind.kind))
        if verb == "delete":
            self.objects = {
                key: stored
                for key, stored in self.objects.items()
                if stored["metadata"]["uid"] != cast("Any", request.body)["preconditions"]["uid"]
            }
            return {}
        stored = copy.deepcopy(cast("dict[str, Any]", request.body))
        stored["metadata"].setdefault("uid", f"uid-{self.version}")
        self.alter(stored)
        return self.store(stored)

    def store(self, stored: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        stored["metadata"]["resourceVersion"] = str(self.version)
        self.objects[stored["kind"], stored["metadata"]["name"]] = stored
        return stored

    def edit(self, **spec: object) -> None:
        """Let another writer change the Deployment."""
        stored = copy.deepcopy(self.objects[DEPLOYMENT])
        stored["spec"].update(spec)
        self.store(stored)

    def live(self, seconds: int) -> list[tuple[str, str]]:
        """Run passes for some time and return the writes."""
        self.written.clear()
        for _ in range(max(seconds // 5, 1)):
            asyncio.run(self._pass())
            self.world.now += 5
        return self.written

    async def _pass(self) -> None:
        live = {key: child_object(key[0], stored) for key, stored in self.objects.items()}
        self.world.revisions = [live[key] for key in live if key[0] == "ControllerRevision"]
        self.world.children = {key: live[key] for key in live if key[0] != "ControllerRevision"}
        view = replace(self.world.view(), rejections=self.state.rejections)
        plan, now = self.world.run(), self.world.now
        others = Recorded()
        acts = PoolActs(
            Children(cast("Writer", self), ObjectStore()),
            cast("Statuses", others),
            cast("Events", others),
            cast("SettingsRecords", others),
        )
        results = await acts.act(
            plan, view, cast("PodControl", others), lambda w: self.state.should_retry(w, now), now
        )
        assert results.failure is None
        self.state.record_write_results(plan.writes, results.stored, results.rejected, now)


def altered_for_minutes() -> Altering:
    """Return a pool whose Deployment was altered often enough for a back-off of minutes."""
    server = Altering(keep_seven_replica_sets)
    server.live(600)
    server.live(5)
    return server


def test_an_altered_deployment_is_written_with_growing_back_off() -> None:
    server = Altering(keep_seven_replica_sets)
    server.live(5)
    assert 3 <= server.live(600).count(("apply", "Deployment")) <= 6


@pytest.mark.parametrize("edit", [{"replicas": 0}, {"progressDeadlineSeconds": 1}])
def test_an_edit_of_an_altered_deployment_is_undone_at_once(edit: dict[str, object]) -> None:
    server = altered_for_minutes()
    assert server.live(5) == []
    server.edit(**edit)
    assert server.live(5) == [("apply", "Deployment")]
    assert edit.items().isdisjoint(server.objects[DEPLOYMENT]["spec"].items())
    assert server.live(5) == []


def test_an_altered_deployment_that_is_deleted_is_created_at_once() -> None:
    server = altered_for_minutes()
    del server.objects[DEPLOYMENT]
    assert server.live(5) == [("create", "Deployment")]


def test_annotations_of_other_writers_end_no_back_off() -> None:
    server = altered_for_minutes()
    stored = server.objects[DEPLOYMENT]
    stored["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "2"
    server.store(stored)
    assert server.live(5) == []


def test_an_altered_revision_is_reported_and_recreated_with_growing_back_off() -> None:
    server = Altering(replace_a_label)
    server.live(5)
    kinds = {item.kind for item in server.state.rejections if item.reason == Rejection.ALTERED}
    assert {"ControllerRevision", "ConfigMap", "Deployment", "Service"} <= kinds
    written = server.live(600)
    for verb in ("delete", "create"):
        assert 3 <= written.count((verb, "ControllerRevision")) <= 6
    assert written.count(("apply", "Service")) <= 6
    assert kinds == {item.kind for item in server.state.rejections}


def replace_a_label_and_add_fields_of_the_server(stored: Any) -> None:
    replace_a_label(stored)
    stored["metadata"]["managedFields"] = [{"manager": "penstock-operator"}]
    stored["status"] = {"observedGeneration": 1}


def test_an_altered_child_is_kept_without_fields_that_only_the_api_server_writes() -> None:
    server = Altering(replace_a_label_and_add_fields_of_the_server)
    server.live(5)
    (rejection,) = (item for item in server.state.rejections if item.kind == "Deployment")
    assert rejection.stored == child_object("Deployment", server.objects[DEPLOYMENT]).manifest


def test_an_altered_child_that_is_no_longer_desired_is_deleted_at_once() -> None:
    server = Altering(replace_a_label)
    server.world.config = replace(CONFIG, peers=PoolPeers(({},)))
    server.live(600)
    server.world.config = CONFIG
    assert server.live(5) == [("delete", "NetworkPolicy")]


def test_an_edit_of_an_altered_pool_of_a_variant_ends_its_back_off() -> None:
    world = parent(scaling={"mode": "Manual"})
    world.settle()
    live = world.pools["chat-fast"]
    heavy = replace(live, spec=live.spec.model_copy(update={"weight": 7}))
    world.pools["chat-fast"] = heavy
    (write,) = world.run().writes
    assert write.write is Write.REPLACE

    class Unchanging:
        async def write(self, *_: object) -> Any:
            own = {**write.manifest["metadata"], "generation": 2, "resourceVersion": "8"}
            return {
                **write.manifest,
                "metadata": own,
                "spec": {**write.manifest["spec"], "weight": 7},
            }

    children = Children(cast("Writer", Unchanging()), ObjectStore())
    with pytest.raises(Altered) as caught:
        asyncio.run(children.write(world.view(), write))
    assert set(caught.value.stored["metadata"]) == {"labels", "annotations", "resourceVersion"}
    for generation, edited in ((2, False), (3, True)):
        world.pools["chat-fast"] = replace(heavy, generation=generation, resource_version="9")
        (again,) = world.run().writes
        assert is_edited(again, caught.value.stored) is edited
