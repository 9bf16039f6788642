"""Keep-alive clients reach new replicas, because the runtime limits the age of connections."""

import asyncio
import time

from tests.e2e.conftest import Figure
from tests.support.kube.pools import PoolHandle
from tests.support.load.load import Load

MIN_SHARE = 0.15
WITHIN_SECONDS = 120.0
"""With 16 randomly distributed clients, a new pod gets under 15 % for a whole minute in about one run of forty;
`make bench-http` measures the minute."""
OVER_SECONDS = 10


def smallest_share(shares: dict[str, float], pods: set[str]) -> float:
    """Return the smallest share among `pods`."""
    return min(shares.get(pod, 0.0) for pod in pods)


async def test_each_new_replica_carries_its_share_of_keep_alive_clients(
    steady: PoolHandle, figure: Figure
) -> None:
    old = steady.pod_names()
    async with Load(steady.url(), steady.name, rate=80, clients=16, constant=True) as load:
        for _ in range(5):
            before = await load.next()
        assert set(before.pods) <= old
        steady.edit({"replicas": 4})
        await asyncio.to_thread(steady.await_ready, 4)
        ready_at, new = time.monotonic(), steady.pod_names() - old
        shares: dict[str, float] = {}
        while (
            time.monotonic() - ready_at < WITHIN_SECONDS and smallest_share(shares, new) < MIN_SHARE
        ):
            now = await load.next()
            shares = now.shares_since(load.reports[-1 - OVER_SECONDS])
        took = time.monotonic() - ready_at
    assert smallest_share(shares, new) >= MIN_SHARE, shares
    breakdown = ", ".join(
        f"{pod} {'new' if pod in new else 'old'} {share:.0%}" for pod, share in shares.items()
    )
    figure(f"16 keep-alive clients, 2 -> 4 replicas: {took:.0f} s after Ready: {breakdown}")
    assert (load.final.lost, load.final.wrong) == (0, 0), load.final.notes
