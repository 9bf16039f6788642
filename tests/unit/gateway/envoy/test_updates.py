"""Changes of resources that Envoy already has, without a request lost."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from penstock_gateway.config import GatewaySettings
from penstock_gateway.envoy_admin import EnvoyAdmin
from penstock_gateway.resources.pools import Configuration, EnvoyResource, Kind, configuration
from penstock_gateway.snapshot import Endpoint, Route, Snapshot
from penstock_gateway.xds.server import AdsServer
from penstock_gateway.xds.session import DeliveryState
from tests.support.gateway.load import load
from tests.support.gateway.stack import Stack, stack


@asynccontextmanager
async def own_server() -> AsyncIterator[tuple[Stack, AdsServer, Configuration]]:
    """Run Envoy and two pods under an ADS server of this process."""
    async with stack() as gateway:
        server = AdsServer(gateway.folder / "ads.sock")
        await server.start()
        try:
            for name in ("pod-0", "pod-1"):
                await gateway.start_pod(name)
            settings = GatewaySettings(namespace="test", gateway="test", host=gateway.host)
            endpoints = tuple(Endpoint(name, gateway.address(name)) for name in gateway.pods)
            route = Route("demo", 10001, endpoints)
            first = configuration(Snapshot({"demo": route}), settings)
            server.replace(first)
            await gateway.start_envoy()
            await gateway.until(lambda: server.ready)
            yield gateway, server, first
        finally:
            await server.stop()


def with_cluster(configuration: Configuration, **changes: object) -> Configuration:
    """Return the configuration with another cluster of pool `demo`."""
    pool = configuration.pools["demo"]
    body = {**pool.cluster.body, **changes}
    changed = replace(pool, cluster=EnvoyResource(Kind.CLUSTER, "demo", body))
    return replace(configuration, pools={"demo": changed})


async def warming_clusters(gateway: Stack) -> float:
    """Return the number of clusters that are not in force yet."""
    admin = EnvoyAdmin(gateway.folder / "admin.sock")
    try:
        lines = (await admin.metrics()).splitlines()
    finally:
        await admin.close()
    return sum(
        float(line.split()[-1])
        for line in lines
        if line.startswith("envoy_cluster_manager_warming_clusters{")
    )


async def test_a_changed_cluster_is_in_force_at_once() -> None:
    async with own_server() as (gateway, server, first), load(gateway.url()) as tally:
        await gateway.until(lambda: tally.answered >= 20)
        begin = time.monotonic()
        server.replace(with_cluster(first, connect_timeout="3s"))
        await gateway.until(lambda: set(server.states("demo").values()) == {DeliveryState.ACCEPTED})
        while await warming_clusters(gateway):
            pass
        assert time.monotonic() - begin < 14  # without its endpoints again, it warms for 15 s
        await gateway.until_more(lambda: tally.answered, 50)
        assert tally.lost == []


async def test_a_cluster_that_envoy_rejects_leaves_the_former_in_force() -> None:
    async with own_server() as (gateway, server, first), load(gateway.url()) as tally:
        server.replace(with_cluster(first, connect_timeout="0s"))
        await gateway.until(lambda: server.states("demo")[Kind.CLUSTER] is DeliveryState.REJECTED)
        ((key, rejection),) = server.rejections().items()
        assert key == (Kind.CLUSTER, "demo")
        assert "ConnectTimeout" in rejection.message
        await gateway.until_more(lambda: tally.answered, 50)
        server.replace(first)
        await gateway.until(lambda: not server.rejections())
        assert tally.lost == []


async def test_a_cluster_that_is_no_message_of_envoys_leaves_the_former_in_force() -> None:
    async with own_server() as (gateway, server, first), load(gateway.url()) as tally:
        server.replace(with_cluster(first, unheard_of=1))
        await gateway.until(lambda: server.states("demo")[Kind.CLUSTER] is DeliveryState.REJECTED)
        ((_, rejection),) = server.rejections().items()
        assert "unheard_of" in rejection.message
        await gateway.until_more(lambda: tally.answered, 50)
        assert tally.lost == []
