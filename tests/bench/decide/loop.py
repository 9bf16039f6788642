"""The operator's loop over active pools: delay of visits, and delay of other tasks meanwhile.

Only the edges are fake: pools are observed without delay, and decisions are applied at once.
"""

import asyncio
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from penstock_operator.act.executor import ActResults
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.kube.scope import CLUSTER
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observed import PoolObject, PoolView
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler.leader_state import LeaderState
from penstock_operator.reconciler.loop import Reconciler
from penstock_operator.reconciler.passes import PassRunner
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew
from tests.bench.decide.fleet import Fleet, signals
from tests.unit.operator.decide.world import CONFIG

FIRST_SECONDS = 15.0
"""Not measured: all pools are due at once when the loop starts."""
TURN_SECONDS = 0.05
RENEWAL_SECONDS = 1.0
"""Interval of the simulated Lease thread, shorter than that of the real one."""


@dataclass
class Edges:
    """Fake observer and executor of a fleet, which answer and apply everything at once."""

    fleet: Fleet
    store: ObjectStore
    state: ReconcileState = field(default_factory=ReconcileState)
    pods_session: Any = None
    visits: int = 0
    pretending_seconds: float = 0.0
    """CPU seconds for the generation of samples."""

    def __post_init__(self) -> None:
        self.numbers = {world.pool.uid: number for number, world in enumerate(self.fleet.worlds)}

    @property
    def confirmations(self) -> "Edges":
        """Confirmations of names, which are all free."""
        return self

    @property
    def records(self) -> "Edges":
        """Settings records of pools: none."""
        return self

    def request_sweep(self) -> None:
        """Do nothing: there are no settings records."""

    @property
    def statuses(self) -> "Edges":
        """The writer of policy statuses."""
        return self

    def has_foreign(self, uid: str) -> bool:
        """Return whether a pool with this UID is unknown."""
        return uid not in self.numbers

    def forget(self, uid: str) -> None:
        """Drop a pool."""
        self.state.forget(uid)

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        """Return the pools as they are now."""
        await asyncio.sleep(0)
        began, views = time.thread_time(), []
        for pool in pools:
            number = self.numbers[pool.uid]
            world = self.fleet.worlds[number]
            world.signals = signals(number, world, now)
            views.append(world.view())
        self.pretending_seconds += time.thread_time() - began
        return views

    async def act(self, plan: PoolPlan, *_: object) -> ActResults:
        """Apply a plan."""
        await asyncio.sleep(0)
        world = self.fleet.worlds[self.numbers[plan.uid]]
        world.pool = replace(world.pool, status=plan.status)
        self.visits += 1
        return ActResults()

    async def write_policy(self, *_: object) -> None:
        """Write nothing."""
        await asyncio.sleep(0)


class ValidLease:
    """A Lease that is always valid."""

    def valid(self, now: float) -> bool:
        """Return True."""
        return now > 0

    def valid_in(self, namespace: str | None) -> bool:
        """Return True for every namespace."""
        return namespace != ""

    def transitions_in(self, namespace: str) -> int:
        """Return the number of changes of the holder: none."""
        del namespace
        return 0


class Signs:
    """Signing keys that are not used."""

    def public_keys(self) -> dict[str, str]:
        """Return the public keys in the pods' settings."""
        return {"k1": "AAAA"}

    def signer(self, now: float) -> float:
        """Return a placeholder for the signer."""
        return now


class UnchangedSchemas:
    """CRD schemas without a difference to the operator's."""

    def of(self, kind: str) -> SchemaSkew:
        """Return a schema without differences."""
        del kind
        return AS_BUILT


@dataclass
class Waits:
    """Delays of a task in the loop and of a separate thread beyond their sleep times."""

    turns: list[float] = field(default_factory=list)
    renewals: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    async def watch(self) -> None:
        """Sleep repeatedly in the loop, like a health probe, and record the delays."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(TURN_SECONDS)
            self.turns.append(time.monotonic() - began - TURN_SECONDS)

    def renew(self) -> None:
        """Wait repeatedly in a thread, and record the delays."""
        began = time.monotonic()
        while not self.over.wait(RENEWAL_SECONDS):
            self.renewals.append(time.monotonic() - began - RENEWAL_SECONDS)
            began = time.monotonic()


async def run(fleet: Fleet, seconds: float) -> dict[str, float]:
    """Run the loop over a settled fleet for `seconds`; return the measured delays and costs."""
    store = ObjectStore()
    store.pools = {world.pool.uid: world.pool for world in fleet.worlds}
    store.policies = {each.uid: each for each in fleet.policies}
    edges = Edges(fleet, store)
    ahead, every = fleet.now - time.time(), cast("Any", edges)
    leads, schemas, keys = (
        cast("Any", ValidLease()),
        cast("Any", UnchangedSchemas()),
        cast("Any", Signs()),
    )
    runner = PassRunner(
        CONFIG, every, every, LeaderState(leads), CLUSTER, schemas,
        clock=lambda: time.time() + ahead,
    )  # fmt: skip
    reconciler = Reconciler(runner)
    reconciler.lead(keys, time.monotonic())
    for uid, state in fleet.states.items():
        edges.state.of(uid).law_state = state
    reconciler.mark_synced()
    waits = Waits()
    thread = threading.Thread(target=waits.renew, daemon=True)
    tasks = [asyncio.create_task(coroutine) for coroutine in (reconciler.run(), waits.watch())]
    await asyncio.sleep(FIRST_SECONDS)
    thread.start()
    waits.turns.clear()
    before, began = edges.visits, time.monotonic()
    worked = time.process_time() - edges.pretending_seconds
    await asyncio.sleep(seconds)
    passed, busy = time.monotonic() - began, time.process_time() - edges.pretending_seconds - worked
    visits = edges.visits - before
    waits.over.set()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, *reconciler._passes, return_exceptions=True)
    thread.join()
    return {
        "pools": len(fleet.worlds),
        "visits": visits,
        "seconds_between_visits": len(fleet.worlds) * passed / max(visits, 1),
        "cpu_percent": 100 * busy / passed,
        "cpu_milliseconds_per_visit": 1000 * busy / max(visits, 1),
        "longest_turn_seconds": max(waits.turns, default=0.0),
        "latest_renewal_seconds": max(waits.renewals, default=0.0),
    }
