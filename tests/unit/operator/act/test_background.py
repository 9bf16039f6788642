"""Writes that no pass waits for: samples, checkpoints and Events, which wait for what other pools write."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_api.types.status import PoolStatus
from penstock_operator.act.children import Children
from penstock_operator.act.events import Events
from penstock_operator.act.executor import ActResults, PoolActs
from penstock_operator.act.rate_limit import TokenBucket, WriteBudget
from penstock_operator.act.status import Statuses
from penstock_operator.act.writer import Writer
from penstock_operator.decide.actions import ChildWrite, EventNote, EventType, Write
from penstock_operator.errors import Unavailable
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.observe.cluster.cache import ObjectStore
from tests.unit.operator.decide.world import World, pool
from tests.unit.operator.observe.cluster import raw_objects

Json = dict[str, Any]
CHECKPOINT = ChildWrite(
    Write.CREATE,
    "ConfigMap",
    {"kind": "ConfigMap", "metadata": raw_objects.meta("chat-memory", "memory-1")},
)
NOTE = EventNote(EventType.NORMAL, "Scaled", "2 replicas")


@dataclass
class Cluster:
    """An operator with one pool, and an API server that admits writes when `refill` says so."""

    leads: bool = True
    fails: bool = False
    sent: list[str] = field(default_factory=list)
    statuses: list[Json] = field(default_factory=list)
    bucket: TokenBucket = field(default_factory=lambda: TokenBucket(0.001, tokens=0.0))
    now: float = 1000.0
    version: int = 0

    def __post_init__(self) -> None:
        self.world = World(pool=pool())
        self.budget = WriteBudget(self.bucket, lambda: 0.0)
        writer = Writer(cast("Any", self), self.budget, lambda _: self.leads)
        store = ObjectStore()
        store.upsert(kinds.POOL, self.stored({}))
        schemas = cast("Any", SimpleNamespace(of=lambda _: SimpleNamespace(lacking=())))
        statuses = Statuses(writer, store, schemas, lambda _: None)
        self.acts = PoolActs(Children(writer, store), statuses, Events(writer), cast("Any", self))

    def stored(self, status: Json) -> Json:
        """Return the pool with this status, in its next version."""
        self.version += 1
        return {**raw_objects.pool(self.world.pool.uid, self.version), "status": status}

    async def send(self, request: ApiRequest, permit: Callable[[], None]) -> Json:
        permit()
        if self.fails:
            raise Unavailable(503, "ServiceUnavailable", "no answer")
        body = cast("Json", request.body)
        self.sent.append("status" if "status" in body else body["kind"])
        if "status" not in body:
            return body
        self.statuses.append(body["status"])
        return self.stored(body["status"])

    async def push(self, pushes: object) -> Json:
        return {}

    async def keep(self, uid: str, record: str | None) -> None:
        pass

    def request_sweep(self) -> None:
        pass

    async def act(self, message: str, **status: Any) -> ActResults:
        """Execute a plan without children whose status has a condition with this message."""
        self.now += 30.0
        ready = {
            "type": "Ready", "status": "True", "reason": "AllReady", "message": message,
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }  # fmt: skip
        desired = PoolStatus.model_validate({"conditions": [ready], **status})
        plan = self.world.run()._replace(
            status=desired, writes=(), events=(NOTE,), checkpoint=CHECKPOINT
        )
        view, control = self.world.view(), cast("Any", self)
        async with asyncio.timeout(5):
            return await self.acts.act(plan, view, control, lambda _: True, self.now)

    async def refill(self) -> None:
        """Admit every write that waits."""
        self.bucket.tokens = 50.0
        self.budget._serve()
        for _ in range(20):
            await asyncio.sleep(0)
        self.bucket.tokens = 0.0

    async def started(self) -> "Cluster":
        """Store a first status, after which changes of the message are no facts."""
        first = asyncio.create_task(self.act("1 of 2"))
        await asyncio.sleep(0)
        await self.refill()
        await first
        await self.refill()
        assert sorted(self.sent) == ["ConfigMap", "Event", "status"]
        self.sent.clear()
        return self


async def test_a_pass_waits_neither_for_samples_nor_for_the_checkpoint_nor_for_events() -> None:
    cluster = await Cluster().started()
    assert (await cluster.act("2 of 2")).failure is None
    assert cluster.sent == []
    await cluster.refill()
    assert sorted(cluster.sent) == ["ConfigMap", "Event", "status"]


async def test_of_the_samples_of_several_passes_the_last_are_written_once() -> None:
    cluster = await Cluster().started()
    for message in ("a", "b", "c"):
        await cluster.act(message)
    await cluster.refill()
    assert cluster.sent.count("status") == 1
    assert cluster.statuses[-1]["conditions"][0]["message"] == "c"


async def test_a_changed_fact_supersedes_samples_that_wait() -> None:
    cluster = await Cluster().started()
    await cluster.act("a")
    changed = asyncio.create_task(cluster.act("b", replicas=2))
    await asyncio.sleep(0)
    assert not changed.done(), "a pass waits for its facts"
    await cluster.refill()
    await changed
    assert cluster.sent.count("status") == 1
    assert cluster.statuses[-1]["replicas"] == 2


async def test_samples_that_wait_overwrite_no_fact_of_another_leader() -> None:
    cluster = await Cluster().started()
    await cluster.act("a")
    stored = cluster.stored({**cluster.statuses[-1], "replicas": 3})
    cluster.acts.statuses.store.upsert(kinds.POOL, stored)
    await cluster.refill()
    assert "status" not in cluster.sent


async def test_what_waits_is_not_written_without_the_lease_or_for_a_deleted_pool() -> None:
    for end in ("lease", "pool"):
        cluster = await Cluster().started()
        await cluster.act("a")
        cluster.leads = end != "lease"
        if end == "pool":
            cluster.acts.forget(cluster.world.pool.uid)
        await cluster.refill()
        assert cluster.sent == []
        assert not cluster.acts.background._tasks


async def test_a_failed_background_write_is_logged_and_repeated_by_a_later_pass(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = await Cluster().started()
    cluster.fails = True
    await cluster.act("a")
    with caplog.at_level(logging.WARNING):
        await cluster.refill()
    assert len([each for each in caplog.messages if "a later pass retries" in each]) == 3
    cluster.fails = False
    await cluster.act("b")
    await cluster.refill()
    assert sorted(cluster.sent) == ["ConfigMap", "Event", "status"]
