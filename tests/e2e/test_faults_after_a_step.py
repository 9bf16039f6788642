"""A fault that begins while replicas start: it causes no wrong-way move and no lost request, and a condition reports it."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field

import pytest

from tests.e2e.conftest import Figure, MakePool
from tests.support.kube.api import Api
from tests.support.kube.faults import packets, prometheus
from tests.support.kube.faults.nan_prometheus import nan_prometheus, queried_for_namespace
from tests.support.kube.pools import PoolHandle, is_ready, until
from tests.support.load.load import Load

MIN_REPLICAS, MAX_REPLICAS = 2, 4
SPEC = {
    "model": {"source": {"type": "Module", "module": {
        "factory": "penstock_runtime.models.emulated:create",
        "arguments": {"a_milliseconds": "100", "c_milliseconds": "40", "load_seconds": "40"},
    }}},
    "scaling": {
        "mode": "Auto", "algorithm": "CapacityAtObjective", "minReplicas": MIN_REPLICAS, "maxReplicas": MAX_REPLICAS,
        "scaleDown": {"stabilizationSeconds": 10, "maxPercentPerMinute": 100},
    },
    "batching": {"size": {"min": 1, "max": 64}},
    "objectives": [{"metric": "RequestLatency", "milliseconds": 1200}],
}  # fmt: skip
"""Two batches of 10 rows fit the objective, at 20 rows/s per replica."""
PLANNED = 10
"""The planned cap in rows; on a busy machine the first plan may be lower."""
STEP = 60
"""Requests per second for four replicas; `MIN_REPLICAS` fall behind by 15 per second with any batch size."""
TOLERANCE = 1.3
"""Tolerance of the fit, and with it of the plan, as a factor."""


@dataclass(frozen=True)
class SignalFault:
    """A fault: how to inject it, how the pool reports it, and its duration."""

    inject: Callable[[Api, PoolHandle], AbstractContextManager[None]]
    reported: Callable[[PoolHandle], bool | str]
    seconds: float
    blind: bool = False
    """Whether the law has no signals during the fault."""


def prometheus_killed(api: Api, _: PoolHandle) -> AbstractContextManager[None]:
    return prometheus.stopped(api)


def series_stale(api: Api, _: PoolHandle) -> AbstractContextManager[None]:
    """llm-d-autoscaling#368: stale series oscillate."""
    return prometheus.not_scraping(api)


@contextmanager
def every_value_nan(api: Api, pool: PoolHandle) -> Iterator[None]:
    """dynamo#6985: NaN must not change the scale."""
    with (
        nan_prometheus(prometheus.url(api)) as server,
        server.spoiling(),
        queried_for_namespace(api, pool.namespace, server),
    ):
        yield
        assert server.spoiled >= 8


def one_not_ready(_: Api, pool: PoolHandle) -> AbstractContextManager[None]:
    """aibrix#617: one NotReady pod stalls the pool."""
    serving = next(pod for pod in pool.pods() if is_ready(pod))
    return packets.not_ready(serving["status"]["podIP"])


def from_prometheus(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "True", "FromPrometheus")


def from_pods(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "True", "ReadFromPods")


def no_signals(pool: PoolHandle) -> bool | str:
    return pool.has_condition("MetricsAvailable", "False", "NoSignals")


def one_serves(pool: PoolHandle) -> bool | str:
    message: str = pool.condition("Ready").get("message", "")
    expected = f"{MIN_REPLICAS - 1}/{MAX_REPLICAS} replicas ready"
    return message.startswith(expected) or message


FAULTS = {
    "prometheus-killed": SignalFault(prometheus_killed, from_pods, 120),
    "series-stale": SignalFault(series_stale, from_pods, 60),
    "nan": SignalFault(every_value_nan, no_signals, 60, blind=True),
    # the liveness probe uses the same port: after 25 s the container may be killed
    "not-ready": SignalFault(one_not_ready, one_serves, 7),
}


@dataclass
class PoolWatch:
    """Observes a pool after a step of load and asserts the invariants, with or without a fault."""

    pool: PoolHandle
    planned: int
    """The cap before the load rose."""
    count: int = MIN_REPLICAS
    caps: set[int] = field(default_factory=set)

    @property
    def highest(self) -> float:
        """The highest cap that the error of the fit explains."""
        return TOLERANCE * max(self.planned, PLANNED)

    def look(self) -> tuple[int, int]:
        """Return (cap, count); asserts that the count never falls and the cap stays near the plan."""
        deployment = self.pool.api.request("GET", self.pool.children["Deployment"])
        cap, count = self.pool.status()["batch"]["cap"], int(deployment["spec"]["replicas"])
        assert count >= self.count, f"the replica count fell, {self.count} -> {count}"
        assert self.planned / TOLERANCE <= cap <= self.highest, f"cap {cap}, planned {self.planned}"
        self.count = count
        self.caps.add(cap)
        return cap, count

    def requested(self) -> bool | str:
        """Return True once all replicas are requested."""
        _, count = self.look()
        return count == MAX_REPLICAS or f"{count} replicas"

    def settled(self) -> bool | str:
        """Return True once all replicas serve."""
        _, count = self.look()
        ready = self.pool.status().get("readyReplicas", 0)
        return ready == count or f"{ready} of {count} Ready"

    def check(self, reported: Callable[[PoolHandle], bool | str]) -> bool | str:
        """Assert the invariants and return whether the pool reports this state."""
        self.look()
        return reported(self.pool)

    def last(self, seconds: float) -> None:
        """Assert the invariants for a while."""
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
    await asyncio.to_thread(pool.await_ready, MIN_REPLICAS, seconds=180)
    async with Load(pool.url(), pool.name, rate=5, timeout=120) as load:
        await load.next()
        await asyncio.to_thread(until, "a planned cap", lambda: planned_cap(pool), seconds=60)
        await asyncio.to_thread(until, "signals", lambda: from_prometheus(pool), seconds=60)
        watch = PoolWatch(pool, planned=pool.status()["batch"]["cap"])
        await load.set_rate(STEP)
        await asyncio.to_thread(until, "all replicas requested", watch.requested, seconds=45)
        await asyncio.to_thread(_inject, watch, fault, api)
        await asyncio.to_thread(until, "all serve", watch.settled, seconds=150)
        await load.set_rate(3)
        await asyncio.to_thread(pool.await_ready, MIN_REPLICAS, seconds=240)
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    figure(
        f"{request.node.callspec.id} for {fault.seconds:.0f} s from a step of load on: caps {sorted(watch.caps)},"
        f" {watch.planned} planned; {MIN_REPLICAS} -> {watch.count} -> {MIN_REPLICAS} replicas, lost 0 of {load.final.sent}"
    )


def _inject(watch: PoolWatch, fault: SignalFault, api: Api) -> None:
    """Inject the fault, assert the invariants meanwhile, and wait until it is no longer reported."""
    with fault.inject(api, watch.pool):
        until("the fault reported", lambda: watch.check(fault.reported), seconds=60)
        watch.last(5)
        before = watch.look()
        watch.last(fault.seconds)
        assert fault.reported(watch.pool) is True
        if fault.blind:
            assert watch.look() == before
    until("signals from Prometheus again", lambda: watch.check(from_prometheus), seconds=90)
