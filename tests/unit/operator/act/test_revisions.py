"""Creation of a ControllerRevision whose name is taken by an object without the pool's label."""

import asyncio
import copy
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from penstock_api import names
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import ActResults, PoolActs
from penstock_operator.act.pod_limits import PodControl
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.settings_records import SettingsRecords
from penstock_operator.act.status import Statuses
from penstock_operator.act.writer import Writer
from penstock_operator.errors import Conflict, ObjectNotFound
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore
from tests.unit.operator.act.test_executor import Recorded
from tests.unit.operator.decide.world import World, settled

REVISION = "ControllerRevision"


@dataclass
class Revisions:
    """Stands for an API server that stores one revision, which it rejects to patch."""

    stored: Any = None
    finalizers: bool = False
    written: list[tuple[str, str]] = field(default_factory=list)
    """(verb, kind) of every accepted write."""

    async def get(self, path: str) -> Any:
        if self.stored is None or not path.endswith("/" + self.stored["metadata"]["name"]):
            raise ObjectNotFound(404, "NotFound", path)
        return copy.deepcopy(self.stored)

    async def write(self, kind: ResourceKind, verb: str, request: ApiRequest, _: Urgency) -> Any:
        body = cast("Any", request.body)
        if kind.kind == REVISION and verb == "create":
            name = body["metadata"]["name"]
            if self.stored is not None:
                raise Conflict(
                    409, "AlreadyExists", f'controllerrevisions.apps "{name}" already exists'
                )
            self.stored = stored(body, uid="uid-new")
        if kind.kind == REVISION and verb == "delete":
            assert body["preconditions"]["uid"] == self.stored["metadata"]["uid"]
            if self.finalizers:
                self.stored["metadata"]["deletionTimestamp"] = "2026-11-21T10:00:00Z"
            else:
                self.stored = None
        self.written.append((verb, kind.kind))
        return stored(body) if verb != "delete" else {}


def stored(manifest: Any, **metadata: Any) -> Any:
    """Return an object as the API server stores it."""
    own = {"uid": "uid-1", "resourceVersion": "200", **manifest["metadata"], **metadata}
    return {**manifest, "metadata": own}


def scaled_up() -> World:
    """Return a pool with 1 replica of 5, whose revision the watch has reported as deleted."""
    world = settled()
    world.revisions = []
    world.edit_spec(replicas=5)
    return world


def unlabelled(world: World, **metadata: Any) -> Any:
    """Return the pool's own revision without the label by which revisions are watched."""
    (write,) = (each for each in world.run().writes if each.kind == REVISION)
    raw = stored(write.manifest, **metadata)
    own = raw["metadata"]
    labels = {key: own["labels"][key] for key in own["labels"] if key != names.LABEL_POOL_UID}
    return {**raw, "metadata": {**own, "labels": labels}}


def act(server: Revisions, world: World) -> ActResults:
    writer = cast("Any", server)
    writer.cluster = server
    others = Recorded()
    acts = PoolActs(
        Children(cast("Writer", writer), ObjectStore()),
        cast("Statuses", others),
        cast("Events", others),
        cast("SettingsRecords", others),
    )
    view, plan = world.view(), world.run()
    control = cast("PodControl", others)
    return asyncio.run(acts.act(plan, view, control, lambda _: True, world.now))


def test_an_own_revision_that_lost_its_label_is_created_again_with_it() -> None:
    world = scaled_up()
    server = Revisions(unlabelled(world))
    results = act(server, world)
    assert results.failure is None
    assert server.stored["metadata"]["labels"][names.LABEL_POOL_UID] == world.pool.uid
    assert server.written[:2] == [("delete", REVISION), ("create", REVISION)]
    assert ("apply", "Deployment") in server.written


@pytest.mark.parametrize(
    "metadata",
    [{"ownerReferences": []}, {"deletionTimestamp": "2026-11-21T10:00:00Z"}],
)
def test_another_object_of_that_name_is_reported_and_the_other_children_are_written(
    metadata: Any,
) -> None:
    world = scaled_up()
    server = Revisions(unlabelled(world, **metadata))
    name = server.stored["metadata"]["name"]
    results = act(server, world)
    assert results.failure is None
    (rejection,) = results.rejected.values()
    assert (rejection.kind, rejection.name, rejection.reason) == (REVISION, name, "AlreadyExists")
    assert f'controllerrevisions.apps "{name}" already exists' in rejection.message
    assert server.written == [("apply", "Deployment")]
    world.rejections = (rejection,)
    (ready,) = (each for each in world.run().status.conditions or () if each.type == "Ready")
    assert (ready.reason, name in str(ready.message)) == ("ChildRejected", True)


def test_an_own_revision_whose_deletion_a_finalizer_delays_does_not_block_later_passes() -> None:
    world = scaled_up()
    server = Revisions(unlabelled(world), finalizers=True)
    assert act(server, world).failure is not None
    server.written.clear()
    results = act(server, replace(world))
    assert (results.failure, len(results.rejected)) == (None, 1)
    assert server.written == [("apply", "Deployment")]


def test_a_revision_that_the_watch_has_not_reported_yet_is_left_alone() -> None:
    world = scaled_up()
    live = unlabelled(world)
    live["metadata"]["labels"][names.LABEL_POOL_UID] = world.pool.uid
    server = Revisions(live)
    assert isinstance(act(server, world).failure, Conflict)
    assert server.stored is live
    assert ("delete", REVISION) not in server.written
