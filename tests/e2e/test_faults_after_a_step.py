"""A fault begins while replicas start: nothing moves the wrong way, a condition tells, nothing is lost."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube import packets, prometheus
from tests.support.kube.api import Api
from tests.support.kube.nan_prometheus import nan_prometheus, queried_for_namespace
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.load import Load

LEAST, MOST = 2, 4
SPEC = {
    "model": {"source": {"type": "Module", "module": {
        "factory": "penstock_runtime.models.emulated:create",
        "arguments": {"a_milliseconds": "100", "c_milliseconds": "40", "load_seconds": "40"},
    }}},
    "scaling": {
        "mode": "Auto", "algorithm": "CapacityAtObjective", "minReplicas": LEAST, "maxReplicas": MOST,
        "scaleDown": {"stabilizationSeconds": 10, "maxPercentPerMinute": 100},
    },
    "batching": {"size": {"min": 1, "max": 64}},
    "objectives": [{"metric": "RequestLatency", "milliseconds": 1200}],
}  # fmt: skip
"""Two batches of 10 rows fit the objective, at 20 rows a second a replica; a batch of 27 fills it, at 23."""
PLANNED = 10
"""Rows; what is planned on a busy machine before much was served may be fewer."""
STEP = 60
"""Requests a second: four replicas' work, whose `LEAST` fall behind by 15 a second however long their batches."""
FILLED = 28
"""No bridge is longer than a batch that fills the objective, but for what the fit is off."""
BREATH = 1.3
"""A fit breathes, and so does the plan: by no more than this factor."""


@dataclass(frozen=True)
class SignalFault:
    """What goes wrong, how a pool that it befalls tells of it, and for how long it lasts."""

    befalls: Callable[[Api, PoolHandle], AbstractContextManager[None]]
    told: Callable[[PoolHandle], bool | str]
    seconds: float
    blind: bool = False
    """Whether it leaves the law nothing to see."""


def prometheus_killed(api: Api, _: PoolHandle) -> AbstractContextManager[None]:
    return prometheus.stopped(api)


def series_stale(api: Api, _: PoolHandle) -> AbstractContextManager[None]:
    """llm-d-autoscaling#368: stale series oscillate."""
    return prometheus.not_scraping(api)


@contextmanager
def every_value_nan(api: Api, pool: PoolHandle) -> Iterator[None]:
    """dynamo#6985: NaN is no number to scale by."""
    with (
        nan_prometheus(prometheus.url(api)) as server,
        server.spoiling(),
        queried_for_namespace(api, pool.namespace, server),
    ):
        yield
        assert server.spoiled >= 8


def one_not_ready(_: Api, pool: PoolHandle) -> AbstractContextManager[None]:
    """aibrix#617: one NotReady pod stalls the pool."""
    serving = next(one for one in pool.pods() if is_ready(one))
    return packets.not_ready(serving["status"]["podIP"])


def from_prometheus(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "True", "FromPrometheus")


def from_pods(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "True", "ReadFromPods")


def no_signals(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "False", "NoSignals")


def one_serves(pool: PoolHandle) -> bool | str:
    said: str = pool.condition("Ready").get("message", "")
    return said.startswith(f"{LEAST - 1} of {MOST} replicas ready") or said


FAULTS = {
    "prometheus-killed": SignalFault(prometheus_killed, from_pods, 120),
    "series-stale": SignalFault(series_stale, from_pods, 60),
    "nan": SignalFault(every_value_nan, no_signals, 60, blind=True),
    # liveness is asked at the same port: after 25 s the container may be killed
    "not-ready": SignalFault(one_not_ready, one_serves, 7),
}


@dataclass
class PoolWatch:
    """A pool under a load that has risen and stays: every look asserts what must hold, fault or none."""

    pool: PoolHandle
    planned: int
    """The cap before the load rose."""
    count: int = LEAST
    caps: set[int] = field(default_factory=set)

    @property
    def highest(self) -> float:
        """The highest cap that is no bridge."""
        return BREATH * max(self.planned, PLANNED)

    def look(self) -> tuple[int, int]:
        """Return (cap, count): the count never falls, and the cap stays between the plan and the longest bridge."""
        deployment = self.pool.api.request("GET", self.pool.children["Deployment"])
        cap, count = self.pool.status()["batch"]["cap"], int(deployment["spec"]["replicas"])
        assert count >= self.count, f"the count fell, {self.count} -> {count}"
        assert self.planned / BREATH <= cap <= FILLED, f"cap {cap}, planned {self.planned}"
        self.count = count
        self.caps.add(cap)
        return cap, count

    def bridges(self) -> bool | str:
        """Say whether all replicas are asked for, and longer batches bridge their start."""
        cap, count = self.look()
        return (count == MOST and cap > self.highest) or f"cap {cap}, {count} replicas"

    def settled(self) -> bool | str:
        """Say whether all replicas serve, and the cap is back."""
        cap, count = self.look()
        ready = self.pool.status().get("readyReplicas", 0)
        back = cap <= self.highest
        return (ready == count and back) or f"cap {cap}, {ready} of {count} Ready"

    def hears(self, told: Callable[[PoolHandle], bool | str]) -> bool | str:
        """Say whether the pool tells this."""
        self.look()
        return told(self.pool)

    def last(self, seconds: float) -> None:
        """Look on for a while."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            self.look()
            time.sleep(0.5)


def planned_cap(pool: PoolHandle) -> bool | str:
    cap: int = pool.status().get("batch", {}).get("cap", 0)
    return cap > 5 or f"cap {cap}"


@pytest.mark.own_cluster
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS.values(), ids=list(FAULTS))
async def test_a_fault_while_replicas_start_makes_no_wrong_way_move(
    api: Api,
    make_pool: MakePool,
    figure: Figure,
    fault: SignalFault,
    request: pytest.FixtureRequest,
) -> None:
    pool = make_pool(**SPEC)
    await asyncio.to_thread(pool.await_ready, LEAST, seconds=180)
    async with Load(pool.url(), pool.name, rate=5, timeout=120) as load:
        await load.next()
        await asyncio.to_thread(until, "a planned cap", lambda: planned_cap(pool), seconds=60)
        await asyncio.to_thread(until, "signals", lambda: from_prometheus(pool), seconds=60)
        watch = PoolWatch(pool, planned=pool.status()["batch"]["cap"])
        await load.set_rate(STEP)
        await asyncio.to_thread(until, "a bridge", watch.bridges, seconds=45)
        await asyncio.to_thread(_befallen, watch, fault, api)
        await asyncio.to_thread(until, "all serve, the cap back", watch.settled, seconds=150)
        await load.set_rate(3)
        await asyncio.to_thread(pool.await_ready, LEAST, seconds=240)
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(
        f"{request.node.callspec.id} for {fault.seconds:.0f} s from a step of load on: caps {sorted(watch.caps)},"
        f" {watch.planned} planned; {LEAST} -> {watch.count} -> {LEAST} replicas, lost 0 of {load.final.sent}"
    )


def _befallen(watch: PoolWatch, fault: SignalFault, api: Api) -> None:
    """Let the fault last, watch it, and wait until it is told no more."""
    with fault.befalls(api, watch.pool):
        until("the fault told", lambda: watch.hears(fault.told), seconds=60)
        watch.last(5)
        before = watch.look()
        watch.last(fault.seconds)
        assert fault.told(watch.pool) is True
        if fault.blind:
            assert watch.look() == before
    until("it sees as before", lambda: watch.hears(from_prometheus), seconds=90)
