"""A pool of two emulated accelerators of unlike speed and price: the cheapest mix follows the load, and no request is lost."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Figure
from tests.support.kube.api import Api, Object
from tests.support.kube.operator import InstalledOperator
from tests.support.kube.pools import PoolHandle, emulated, until
from tests.support.load.load import Load

pytestmark = pytest.mark.long

LOW, HIGH = 4, 50
"""Requests a second. A slow replica serves some 15 within the objective for a third of the price of a fast one, which serves
over 100: one slow replica is the cheapest at LOW; at HIGH two slow ones, their maximum, do not suffice."""
SETTLED_SECONDS = 240.0
PRICES = {
    "currency": "EUR",
    "prices": [
        {"name": "cpu", "resourceName": "cpu", "perHour": 1},
        {"name": "memory", "resourceName": "memory", "perHour": 0},
    ],
}


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
        variants=[variant("fast", 40, 5, "150m", 2), variant("slow", 100, 50, "50m", 2)],
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


async def await_mix(pool: PoolHandle, **expected: int) -> float:
    """Wait until the Ready replicas are `expected`; return the seconds."""

    def probe() -> bool | str:
        variants = pool.status().get("variants") or []
        ready = {each["name"]: each.get("readyReplicas", 0) for each in variants}
        asked = {each["name"]: each.get("replicas", 0) for each in variants}
        return (ready == expected and asked == expected) or f"{variants}"

    return await asyncio.to_thread(
        until, f"the mix {expected}", probe, seconds=SETTLED_SECONDS, every=1
    )


@pytest.mark.usefixtures("prices", "no_crash_loop")
async def test_the_cheapest_mix_follows_the_load(
    api: Api, operator: InstalledOperator, namespace: str, figure: Figure
) -> None:
    pool = PoolHandle(api, namespace, "mixed")
    pool.apply(mixed())
    await asyncio.to_thread(pool.await_ready, 1)
    async with Load(pool.url(), pool.name, rate=LOW) as load:
        await await_mix(pool, fast=0, slow=1)
        await load.set_rate(HIGH)
        more = await await_mix(pool, fast=1, slow=0)
        await load.set_rate(LOW)
        fewer = await await_mix(pool, fast=0, slow=1)
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
    capacity = {
        each["name"]: float(each["rowsPerSecondPerReplica"]) for each in pool.status()["variants"]
    }
    assert capacity["fast"] > 4 * capacity["slow"]
    assert pool.has_condition("SplitByCapacity", "False", "ByConnections") is True
    figure(
        f"variants: {LOW} -> {HIGH} -> {LOW} requests/s: the fast replica alone after {more:.0f} s, the slow one after"
        f" {fewer:.0f} s, lost 0 of {load.final.sent}"
    )
