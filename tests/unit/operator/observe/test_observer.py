"""The observe step: a pool that cannot be observed leaves the others of its pass alone."""

from typing import Any, cast

import pytest

from penstock_operator.kube import kinds
from penstock_operator.observe import observer as observer_module
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.observer import Observer
from penstock_operator.observe.signals.sources import PoolPods
from penstock_operator.observed import PoolObject, PoolSignals
from penstock_operator.reconcile_state import NO_SIGNALS, ReconcileState
from penstock_operator.telemetry import metrics
from penstock_operator.telemetry.logs import of
from tests.unit.operator.observe.cluster import raw_objects as raw


class Failing:
    """Confirmations that raise for one pool, as a defect in reading what its pods answer would."""

    async def confirm(self, pool: PoolObject, now: float) -> dict[str, Any]:
        del now
        if pool.name == "bad":
            raise TypeError("not what a pod answers")
        return {}


async def test_a_pool_whose_observation_raises_is_left_out_and_logged_by_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, no_session = ObjectStore(), cast("Any", None)
    store.upsert(kinds.POOL, raw.pool("pool-1", name="bad"))
    store.upsert(kinds.POOL, raw.pool("pool-2", name="good"))
    confirmations = cast("Any", Failing())
    observer = Observer(store, confirmations, no_session, ReconcileState(), None, no_session)
    failures = metrics.POOL_FAILURES.labels("NotObserved")
    before = failures._value.get()
    views = await observer.observe(list(store.pools.values()), 1_000_000.0)
    assert [view.pool.name for view in views] == ["good"]
    assert "team-a/bad" in caplog.text
    assert {of(record).get("pool") for record in caplog.records} == {"bad"}
    assert failures._value.get() == before + 1


async def test_calls_to_the_pods_of_a_pool_keep_their_bound_between_rounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    targets: list[PoolPods] = []

    async def signals(_: object, pools: list[PoolPods], *__: object) -> dict[str, PoolSignals]:
        targets.extend(pools)
        return {pool.uid: NO_SIGNALS for pool in pools}

    monkeypatch.setattr(observer_module, "observe_signals", signals)
    store, no_session = ObjectStore(), cast("Any", None)
    store.upsert(kinds.POOL, raw.pool())
    state = ReconcileState()
    observer = Observer(store, cast("Any", Failing()), no_session, state, None, no_session)
    for now in (1_000_000.0, 1_000_010.0):
        await observer.observe(list(store.pools.values()), now)
    assert [target.calls for target in targets] == [state.of("pool-1").calls] * 2


async def test_signals_are_read_again_when_the_clock_stepped_back() -> None:
    store, no_session = ObjectStore(), cast("Any", None)
    store.upsert(kinds.POOL, raw.pool())
    state = ReconcileState()
    observer = Observer(store, cast("Any", Failing()), no_session, state, None, no_session)
    read_at = []
    for now in (1_000_000.0, 1_000_001.0, 999_000.0):
        await observer.observe(list(store.pools.values()), now)
        read_at.append(state.of("pool-1").signals_at)
    assert read_at == [1_000_000.0, 1_000_000.0, 999_000.0]
