"""Calls to the pods of one pool: bounded, silent pods last, each in its turn."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import pytest

from penstock_operator.net.http import CallFailed, NoResponse
from penstock_operator.net.pod_calls import CALLS, POOL_CALLS, PodCalls

PODS = tuple(f"uid-{i}" for i in range(3 * POOL_CALLS))


class Fleet:
    """Pods, some of them silent, and which were called in order."""

    def __init__(self, silent: Iterable[str]) -> None:
        self.silent = set(silent)
        self.called: list[str] = []
        self.open, self.most = 0, 0

    def calls(self) -> dict[str, Callable[[], Awaitable[str]]]:
        """Return a call of each pod."""
        return {uid: partial(self._call, uid) for uid in PODS}

    async def _call(self, uid: str) -> str:
        self.called.append(uid)
        self.open += 1
        self.most = max(self.most, self.open)
        await asyncio.sleep(0)
        self.open -= 1
        if uid in self.silent:
            raise NoResponse("did not respond within 2 s")
        return uid


async def test_calls_are_bounded_for_a_pool_and_for_all() -> None:
    fleet, calls = Fleet(()), PodCalls()
    assert await calls.run(fleet.calls()) == dict(zip(PODS, PODS, strict=True))
    assert fleet.most == POOL_CALLS < CALLS
    shared, both = asyncio.Semaphore(3), Fleet(())
    await asyncio.gather(*(PodCalls(shared).run(both.calls()) for _ in range(2)))
    assert both.most == 3


async def test_a_pool_of_silent_pods_is_called_in_turns() -> None:
    fleet, calls = Fleet(PODS), PodCalls()
    for _ in range(20):
        fleet.called.clear()
        results = await calls.run(fleet.calls())
        assert POOL_CALLS <= len(fleet.called) < 2 * POOL_CALLS
        assert all(isinstance(result, CallFailed) for result in results.values())
    fleet.silent.clear()
    assert list((await calls.run(fleet.calls())).values()) != []
    assert set(fleet.called) == set(PODS)


async def test_pods_behind_silent_ones_are_called_at_the_next_run() -> None:
    fleet, calls = Fleet(PODS[: 2 * POOL_CALLS]), PodCalls()
    results = await calls.run(fleet.calls())
    assert str(results[PODS[-1]]) == "was not called: other pods of the pool did not respond"
    for _ in range(2):
        fleet.called.clear()
        results = await calls.run(fleet.calls())
    assert [results[uid] for uid in PODS[2 * POOL_CALLS :]] == list(PODS[2 * POOL_CALLS :])
    assert fleet.called[:POOL_CALLS] == list(PODS[2 * POOL_CALLS :])


async def test_a_deleted_pod_is_forgotten_and_other_errors_are_not_kept_back() -> None:
    fleet, calls = Fleet(PODS[:1]), PodCalls()
    await calls.run(fleet.calls())
    calls.keep(PODS[1:])
    fleet.called.clear()
    await calls.run(fleet.calls())
    assert fleet.called[0] == PODS[0]

    async def broken() -> str:
        raise LookupError

    with pytest.raises(LookupError):
        await calls.run({"uid-0": broken})
