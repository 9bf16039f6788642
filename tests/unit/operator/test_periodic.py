"""Periodic tasks next to the reconcile loop: what they do while the API server rejects their requests."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_operator import periodic
from penstock_operator.errors import Rejected


async def test_signing_keys_that_cannot_be_read_are_read_again_with_back_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[float] = []
    clock = [0.0]

    async def reject(*_: object) -> None:
        attempts.append(clock[0])
        raise Rejected(403, "Forbidden", "secrets is forbidden")

    async def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] > 15:
            raise asyncio.CancelledError

    monkeypatch.setattr(periodic, "load_keys", reject)
    monkeypatch.setattr(periodic, "time", SimpleNamespace(monotonic=lambda: clock[0], time=float))
    monkeypatch.setattr(periodic, "asyncio", SimpleNamespace(sleep=sleep))
    leader = SimpleNamespace(keys_due=lambda _: True)
    reconciler = SimpleNamespace(leader=leader, check_leases=lambda _: None, lead=None)
    with pytest.raises(asyncio.CancelledError):
        await periodic.refresh_keys(cast("Any", reconciler), cast("Any", None), "system")
    assert attempts == [0.0, 2.0, 6.0, 14.0]
