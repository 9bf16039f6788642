"""The operator's own loop over pools that all work: how late it visits them, and what else waits meanwhile.

Everything is real but the edges: pools are observed at once, and what is decided comes true at once.
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
from penstock_operator.observed import AS_BUILT, PoolObject, PoolView, SchemaSkew
from penstock_operator.reconcile_state import ReconcileState
from penstock_operator.reconciler.leader_state import LeaderState
from penstock_operator.reconciler.loop import Reconciler
from penstock_operator.reconciler.passes import PassRunner
from tests.bench.decide.fleet import Fleet, signals
from tests.unit.operator.decide.world import CONFIG

FIRST_SECONDS = 15.0
"""Not counted: all pools come due at once when the loop begins."""
TURN_SECONDS = 0.05
RENEWAL_SECONDS = 1.0
"""As the Lease's thread does, more often than it."""


@dataclass
class Edges:
    """Observer and acts of a fleet: whatever is asked for is there, whatever is decided is so."""

    fleet: Fleet
    store: ObjectStore
    state: ReconcileState = field(default_factory=ReconcileState)
    pods_session: Any = None
    visits: int = 0
    pretending_seconds: float = 0.0
    """CPU that went into making up samples."""

    def __post_init__(self) -> None:
        self.numbers = {world.pool.uid: one for one, world in enumerate(self.fleet.worlds)}

    @property
    def confirmations(self) -> "Edges":
        """Nothing stands under a child's name that is not the pool's."""
        return self

    @property
    def records(self) -> "Edges":
        """Settings records of pools: none."""
        return self

    def request_sweep(self) -> None:
        """Do nothing: there are no settings records."""

    @property
    def statuses(self) -> "Edges":
        """Where policies are told of."""
        return self

    def has_foreign(self, uid: str) -> bool:
        """Tell whether anything stands there."""
        return uid not in self.numbers

    def forget(self, uid: str) -> None:
        """Drop a pool."""
        self.state.forget(uid)

    async def observe(self, pools: Sequence[PoolObject], now: float) -> list[PoolView]:
        """Return the pools as they are now."""
        await asyncio.sleep(0)
        began, found = time.thread_time(), []
        for pool in pools:
            number = self.numbers[pool.uid]
            world = self.fleet.worlds[number]
            world.signals = signals(number, world, now)
            found.append(world.view())
        self.pretending_seconds += time.thread_time() - began
        return found

    async def act(self, plan: PoolPlan, *_: object) -> ActResults:
        """Let a plan come true."""
        await asyncio.sleep(0)
        world = self.fleet.worlds[self.numbers[plan.uid]]
        world.pool = replace(world.pool, status=plan.status)
        self.visits += 1
        return ActResults()

    async def write_policy(self, *_: object) -> None:
        """Tell nobody."""
        await asyncio.sleep(0)


class ValidLease:
    """A Lease that is held."""

    def valid(self, now: float) -> bool:
        """Tell whether it is."""
        return now > 0

    def valid_in(self, namespace: str | None) -> bool:
        """Tell whether it is, wherever."""
        return namespace != ""

    def transitions_in(self, namespace: str) -> int:
        """Return how often it changed hands."""
        del namespace
        return 0


class Signs:
    """Keys that nobody asks for."""

    def public_keys(self) -> dict[str, str]:
        """Return what pods' settings hold."""
        return {"k1": "AAAA"}

    def signer(self, now: float) -> float:
        """Return what no call is signed with here."""
        return now


class UnchangedSchemas:
    """The CRDs are as they were built."""

    def of(self, kind: str) -> SchemaSkew:
        """Return that nothing differs."""
        del kind
        return AS_BUILT


@dataclass
class Waits:
    """How much longer than they asked for a task of the loop, and a thread beside it, had to wait."""

    turns: list[float] = field(default_factory=list)
    renewals: list[float] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    async def watch(self) -> None:
        """Wait again and again in the loop, as whoever asks for its health does."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(TURN_SECONDS)
            self.turns.append(time.monotonic() - began - TURN_SECONDS)

    def renew(self) -> None:
        """Wait again and again in a thread."""
        began = time.monotonic()
        while not self.over.wait(RENEWAL_SECONDS):
            self.renewals.append(time.monotonic() - began - RENEWAL_SECONDS)
            began = time.monotonic()


async def run(fleet: Fleet, seconds: float) -> dict[str, float]:
    """Let the loop visit a settled fleet for so many seconds; return what was late, and by how much."""
    store = ObjectStore()
    store.pools = {world.pool.uid: world.pool for world in fleet.worlds}
    store.policies = {one.uid: one for one in fleet.policies}
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
    tasks = [asyncio.create_task(one) for one in (reconciler.run(), waits.watch())]
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
