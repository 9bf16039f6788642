"""`make bench-gateway`: eight emulated pods by connection, by the gateway, by other projects' routers, and by an oracle."""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from statistics import mean, quantiles

from rich.console import Console
from rich.table import Table

from penstock_api import names
from tests.bench.gateway.clients import (
    ByConnection,
    ByGateway,
    ByOracle,
    Client,
    body_of,
    open_loop,
)
from tests.bench.gateway.cost import Way, cost, cpu_seconds, memory_bytes
from tests.bench.gateway.emulated_pods import PATH, REQUESTS_PER_SECOND, PodKind
from tests.bench.gateway.rivals import RIVALS, Rival
from tests.bench.gateway.streams import STREAMS, stream_tokens
from tests.support.gateway import api_server
from tests.support.gateway.stack import Stack, stack

PODS = 8
LOADS = (0.80, 0.88)
PORT = 10001
POOLS = 500
PARTS = (PodKind.BATCHING, PodKind.CONTINUOUS, "Cost", "Streams", "Pools")
console = Console(width=150)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="40 s a run instead of 180 s")
    parser.add_argument("--seconds", type=float, help="of a run")
    parser.add_argument("--only", choices=PARTS, action="append", help="a table; default: all")
    options = parser.parse_args()
    seconds = options.seconds or (40.0 if options.quick else 180.0)
    console.print(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {seconds:.0f} s a run"
    )
    asyncio.run(_run(seconds, options.only or PARTS))
    console.print(f"load average {os.getloadavg()[0]:.1f} at the end")


async def _run(seconds: float, parts: Sequence[str]) -> None:
    rivals = [rival for rival in RIVALS if rival.is_there()]
    for kind in (PodKind.BATCHING, PodKind.CONTINUOUS):
        if kind in parts:
            async with _gateway(kind, PODS, rivals) as gateway:
                console.print(await _balance(gateway, kind, seconds, rivals))
    if "Cost" in parts:
        async with _gateway(PodKind.INSTANT, 2, rivals) as gateway:
            console.print(await cost(_ways(gateway, rivals), seconds / 2))
    if "Streams" in parts:
        async with _gateway(PodKind.INSTANT, 2, rivals) as gateway:
            console.print(await _streams(gateway, seconds / 2, rivals))
    if "Pools" in parts:
        async with _gateway(PodKind.INSTANT, 1) as gateway:
            console.print(await _many_pools(gateway))


@asynccontextmanager
async def _gateway(kind: PodKind, pods: int, rivals: Sequence[Rival] = ()) -> AsyncIterator[Stack]:
    async with stack() as gateway:
        words = ("-m", "tests.bench.gateway.emulated_pods", kind, gateway.network, str(pods))
        gateway.pods["pods"] = await gateway.start("pods", sys.executable, *words)
        await gateway.until(lambda: "listening" in gateway.log("pods"))
        await gateway.api.put("services", api_server.service("demo", PORT))
        for number in range(pods):
            pod = api_server.pod(f"pod-{number}", "demo", f"{gateway.network}.{10 + number}")
            await gateway.api.put("pods", pod)
        await gateway.start_controller()
        await gateway.start_envoy()
        await gateway.until_ready()
        await gateway.until_endpoints(pods)
        for rival in rivals:
            await rival.start(
                gateway, [f"{gateway.network}.{10 + number}" for number in range(pods)]
            )
        yield gateway


async def _balance(gateway: Stack, kind: PodKind, seconds: float, rivals: Sequence[Rival]) -> Table:
    addresses = [f"{gateway.network}.{10 + number}" for number in range(PODS)]
    table = Table(
        "load",
        "client",
        "answered",
        "lost",
        "mean, ms",
        "p99, ms",
        "mean by oracle's",
        title=f"{kind} pods",
    )
    for load in LOADS:
        clients: dict[str, Client] = {
            "oracle": ByOracle(addresses, names.CLIENT_PORT),
            "oracle that rotates": ByOracle(addresses, names.CLIENT_PORT, rotates=True),
            "gateway": ByGateway(gateway.host, PORT),
            **{rival.name: ByGateway(gateway.host, rival.port) for rival in rivals},
            "connection": ByConnection(addresses, names.CLIENT_PORT),
        }
        best = 0.0
        for name, client in clients.items():
            rate = load * PODS * REQUESTS_PER_SECOND
            sent = await open_loop(client, rate, seconds, seed=1, body=body_of(100))
            latencies = sent.latencies
            best = best or mean(latencies)
            figures = (f"{value:.0f}" for value in (1000 * mean(latencies), 1000 * _p99(latencies)))
            ratio = f"{mean(latencies) / best:.3f}"
            table.add_row(f"{load:.0%}", name, str(len(latencies)), str(sent.lost), *figures, ratio)
    return table


def _ways(gateway: Stack, rivals: Sequence[Rival]) -> dict[str, Way]:
    """Return the ways to two pods, straight to one of them first."""
    ways = {
        "direct": Way(ByGateway(f"{gateway.network}.10", names.CLIENT_PORT)),
        "gateway": Way(ByGateway(gateway.host, PORT), _pid(gateway)),
    }
    for rival in rivals:
        client = ByGateway(gateway.host, rival.port)
        ways[rival.name] = Way(client, gateway.pods[rival.name].pid)
    return ways


async def _streams(gateway: Stack, seconds: float, rivals: Sequence[Rival]) -> Table:
    table = Table(
        "path", "tokens", "streams lost", "mean, ms", "p50, ms", "p99, ms", "CPU a token",
        title=f"Delay of a token, {STREAMS} streams at a time, a token every 20 ms",
    )  # fmt: skip
    ways: dict[str, tuple[str, int, int | None]] = {
        "direct": (f"{gateway.network}.10", names.CLIENT_PORT, None),
        "gateway": (gateway.host, PORT, _pid(gateway)),
    }
    for rival in rivals:
        ways[rival.name] = gateway.host, rival.port, gateway.pods[rival.name].pid
    for path, (host, port, pid) in ways.items():
        before = 0.0 if pid is None else cpu_seconds(pid)
        tokens = await stream_tokens(host, port, seconds)
        count = len(tokens.delays)
        cost = "" if pid is None else f"{1e6 * (cpu_seconds(pid) - before) / count:.1f} us"
        cuts = quantiles(tokens.delays, n=100)
        milliseconds = (
            f"{1000 * value:.2f}" for value in (mean(tokens.delays), cuts[49], cuts[98])
        )
        table.add_row(path, str(count), str(tokens.lost), *milliseconds, cost)
    return table


async def _many_pools(gateway: Stack) -> Table:
    table = Table(
        "pools",
        "all acknowledged after, s",
        "one endpoint in force after, ms",
        "Envoy's memory",
        title="Many pools",
    )
    begin = time.monotonic()
    for number in range(POOLS):
        await gateway.api.put("services", api_server.service(f"pool-{number}", 20000 + number))
    await gateway.until_status(lambda status: _accepted(status, POOLS), poll_seconds=0.2)
    whole = time.monotonic() - begin
    begin = time.monotonic()
    await gateway.api.put("pods", api_server.pod("late-1", "pool-7", f"{gateway.network}.10"))
    url = gateway.url(PATH, 20007)
    while True:
        async with gateway.client.post(url) as answer:
            if answer.status == 200:
                break
    in_force = time.monotonic() - begin
    memory = memory_bytes(_pid(gateway)) / 2**20
    table.add_row(str(POOLS), f"{whole:.2f}", f"{1000 * in_force:.0f}", f"{memory:.0f} MiB")
    return table


def _accepted(status: dict[str, dict[str, dict[str, dict[str, str]]]], pools: int) -> bool:
    states = [set(pool["resources"].values()) == {"Accepted"} for pool in status["pools"].values()]
    return len(states) > pools and all(states)


def _p99(latencies: Iterable[float]) -> float:
    return quantiles(latencies, n=100)[98]


def _pid(gateway: Stack) -> int:
    assert gateway.envoy is not None
    return gateway.envoy.pid


if __name__ == "__main__":
    main()
