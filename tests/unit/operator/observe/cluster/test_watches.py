"""Watches against an HTTP server: a rejected one is retried without affecting the others, and all stop together."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.scope import Scope, namespaces_scope
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Resync
from penstock_operator.observe.cluster.watches import Watches
from tests.unit.operator.observe.cluster.api_server import ApiServer, Json

TWO = namespaces_scope(("team-a", "team-b"), "system", policies_readable=True)


def pool(namespace: str) -> Json:
    meta = {"name": "chat", "namespace": namespace, "uid": f"uid-{namespace}", "resourceVersion": "5",
            "creationTimestamp": "2026-11-21T10:00:00Z"}  # fmt: skip
    source = {"type": "Module", "module": {"factory": "a.b:c"}}
    head = {"apiVersion": "penstock.dev/v1alpha1", "kind": "InferencePool"}
    return {**head, "metadata": meta, "spec": {"model": {"source": source}}}


def server() -> ApiServer:
    return ApiServer({kinds.POOL.path(name): [pool(name)] for name in ("team-a", "team-b")})


def watches(scope: Scope) -> Watches:
    store = ObjectStore(own_namespace="system")
    resync = Resync(cast("ApiClient", None), store, lambda _: None, scope)
    return Watches(scope, store, resync, lambda _: None, "tests")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - kopf has no event for it
            await asyncio.sleep(0.05)


async def test_a_forbidden_namespace_is_retried_while_the_others_are_watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, watching = server(), watches(TWO)
    api.forbidden.add("team-b")
    async with api.serving(tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        running = asyncio.create_task(watching.run())
        await until(lambda: "uid-team-a" in watching.store.pools)
        assert "uid-team-b" not in watching.store.pools
        api.forbidden.clear()
        await until(lambda: "uid-team-b" in watching.store.pools)
        assert not running.done()

        watching.stopping.set()
        async with asyncio.timeout(30):
            await running


async def test_a_list_whose_continuation_token_expired_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    api, watching = server(), watches(TWO)
    cut = kinds.POOL.path("team-a")
    api.expiring[cut] = 1
    async with api.serving(tmp_path) as kubeconfig:
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
        running = asyncio.create_task(watching.run())
        await until(lambda: api.requests.count(cut) >= 3 and "uid-team-b" in watching.store.pools)
        assert "uid-team-a" in watching.store.pools
        assert not running.done()
        assert "restarting the watches" in caplog.text
        watchers = [
            task.get_name() for task in asyncio.all_tasks() if "watcher for" in task.get_name()
        ]
        assert len(watchers) == len(set(watchers)), "the watchers of the first attempt have ended"
        assert sum(name.endswith("@team-a") for name in watchers) == sum(
            name.endswith("@team-b") for name in watchers
        )

        watching.stopping.set()
        async with asyncio.timeout(30):
            await running
