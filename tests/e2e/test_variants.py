"""A pool of two emulated accelerators of unlike speed and price: both are measured and exchanged, and no request is lost."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Figure
from tests.support.kube.api import Api, Object
from tests.support.kube.pools import PoolHandle, emulated, until
from tests.support.load.load import Load

pytestmark = pytest.mark.long

RATE = 4
"""Requests a second, which one replica of either variant serves."""
SETTLED_SECONDS = 240.0
PRICES = {
    "currency": "EUR",
    "prices": [
        {"name": "cpu", "resourceName": "cpu", "perHour": 1},
        {"name": "memory", "resourceName": "memory", "perHour": 0},
    ],
}


FAST: Object = {"name": "fast", "a": 40, "c": 5, "cpu": "150m", "most": 2}
SLOW: Object = {"name": "slow", "a": 100, "c": 50, "cpu": "50m", "most": 2}


def variant(name: str, a: int, c: int, cpu: str, most: int) -> Object:
    """Return a variant whose batch of b rows takes a + c*b ms."""
    container = {
        "env": [
            {"name": "FIXED_MILLISECONDS", "value": str(a)},
            {"name": "ROW_MILLISECONDS", "value": str(c)},
        ],
        "resources": {"requests": {"cpu": cpu}},
    }
    return {"name": name, "maxReplicas": most, "template": {"container": container}}


def mixed() -> Object:
    """Return the spec of the pool."""
    spec = emulated(
        objectives=[{"metric": "RequestLatency", "milliseconds": 1000}],
        drain={"deadlineSeconds": 20},
        scaling={
            "mode": "Auto", "minReplicas": 1, "maxReplicas": 4,
            "scaleDown": {"stabilizationSeconds": 5},
        },
        variants=[variant(**FAST), variant(**SLOW)],
    )  # fmt: skip
    arguments = {"a_milliseconds": "$FIXED_MILLISECONDS", "c_milliseconds": "$ROW_MILLISECONDS"}
    spec["model"]["source"]["module"]["arguments"] = arguments
    return spec


@pytest.fixture
def prices(api: Api, namespace: str) -> Iterator[None]:
    selector = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePolicy"}
    spec = {"namespaceSelector": selector, "pricing": PRICES}
    api.apply({**head, "metadata": {"name": f"prices-{namespace}"}, "spec": spec})
    yield
    api.delete(f"/apis/penstock.dev/v1alpha1/inferencepolicies/prices-{namespace}")


async def await_mix(pool: PoolHandle, fast: set[int], slow: set[int]) -> float:
    """Wait until the requested and the Ready replicas of both variants are among these; return the seconds."""

    def probe() -> bool | str:
        variants = {each["name"]: each for each in pool.status().get("variants") or ()}
        if len(variants) == 2 and all(
            variants[name]["replicas"] == variants[name]["readyReplicas"]
            and variants[name]["replicas"] in allowed
            for name, allowed in (("fast", fast), ("slow", slow))
        ):
            return True
        return f"{variants}"

    return await asyncio.to_thread(
        until, f"fast {fast}, slow {slow}", probe, seconds=SETTLED_SECONDS, every=0.5
    )


def capacities(pool: PoolHandle) -> dict[str, float]:
    """Return the rows a second of one replica, of the variants that have been measured."""
    return {
        each["name"]: float(each["rowsPerSecondPerReplica"])
        for each in pool.status()["variants"]
        if "rowsPerSecondPerReplica" in each
    }


@pytest.mark.usefixtures("prices", "no_crash_loop", "operator")
async def test_unlike_replicas_are_measured_exchanged_and_counted(
    api: Api, namespace: str, figure: Figure
) -> None:
    pool = PoolHandle(api, namespace, "mixed")
    pool.apply(mixed())
    await asyncio.to_thread(pool.await_condition, "Ready", "True", seconds=90)
    async with Load(pool.url(), pool.name, rate=RATE) as load:
        await asyncio.to_thread(
            until, "both are measured", lambda: len(capacities(pool)) == 2, seconds=SETTLED_SECONDS
        )
        assert capacities(pool)["fast"] > 4 * capacities(pool)["slow"]
        pool.edit({"variants": [variant(**{**FAST, "most": 0}), variant(**SLOW)]})
        exchanged = await await_mix(pool, fast={0}, slow={1, 2})
        pool.edit({"variants": [variant(**FAST), variant(**SLOW)], "scaling": {"mode": "Manual"}, "replicas": 3})  # fmt: skip
        counted = await await_mix(pool, fast={2}, slow={1})
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    assert pool.has_condition("SplitByCapacity", "False", "ByConnections") is True
    figure(
        f"variants: fast exchanged for slow in {exchanged:.0f} s, three replicas by hand in {counted:.0f} s,"
        f" lost 0 of {load.final.sent}"
    )
