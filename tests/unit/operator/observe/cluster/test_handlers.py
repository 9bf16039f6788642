"""kopf registers event handlers alone: every other kind of handler writes to the objects."""

import ast
import inspect
from typing import Any, cast

import kopf

from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiClient
from penstock_operator.kube.scope import CLUSTER
from penstock_operator.observe.cluster import handlers
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.relist import Resync


def registered() -> tuple[kopf.OperatorRegistry, ObjectStore, list[frozenset[str] | None]]:
    store, enqueued = ObjectStore(), list[frozenset[str] | None]()
    resync = Resync(cast("ApiClient", None), store, enqueued.append)
    return handlers.registry(store, resync, enqueued.append, CLUSTER.watches[0]), store, enqueued


def test_only_event_and_login_handlers_are_registered() -> None:
    registry, _, _ = registered()

    for kind in ("_indexing", "_spawning", "_changing", "_webhooks"):
        assert getattr(registry, kind).get_all_handlers() == [], kind
    activities = {str(handler.activity) for handler in registry._activities.get_all_handlers()}
    assert activities == {"authentication"}


def test_every_watched_kind_has_exactly_one_handler() -> None:
    registry, _, _ = registered()
    selectors = [handler.selector for handler in registry._watching.get_all_handlers()]
    handled = [(each.group, each.version, each.any_name) for each in selectors if each]
    assert handled == [(kind.group, kind.version, kind.plural) for kind in kinds.WATCHED]


def test_children_and_pods_are_listed_by_label_and_pools_are_not() -> None:
    selectors = handlers.settings().watching.label_selectors
    watched = set(kinds.BY_KIND.values())
    labelled = {kind for kind in watched if kind.label_selector}
    assert labelled == watched - {kinds.POOL, kinds.POLICY, kinds.NAMESPACE}
    assert len(selectors) == len(labelled)
    foreign = {kinds.STATEFUL_SET.label_selector}
    assert set(selectors.values()) - foreign == {"penstock.dev/pool-uid"}


def test_kopf_posts_nothing_and_has_no_peers() -> None:
    settings = handlers.settings()
    assert not settings.posting.enabled
    assert settings.peering.standalone
    assert settings.scanning.disabled


def test_kopf_copies_and_stores_nothing_of_objects() -> None:
    persistence = handlers.settings().persistence
    body, patch = kopf.Body({"metadata": {"name": "a"}, "spec": {"a": 1}}), kopf.Patch()
    essence = persistence.diffbase_storage.build(body=body)
    assert essence == {}
    assert persistence.progress_storage.clear(essence=essence) is essence
    persistence.diffbase_storage.store(body=body, patch=patch, essence=essence)
    persistence.progress_storage.touch(body=body, patch=patch, value="now")
    assert not patch


async def test_an_event_reaches_the_store_and_enqueues_its_pool() -> None:
    registry, store, enqueued = registered()
    on_event: Any = next(iter(registry._watching.get_all_handlers())).fn
    meta = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1",
            "creationTimestamp": "2026-11-21T10:00:00Z"}  # fmt: skip
    source = {"type": "Module", "module": {"factory": "a.b:c"}}
    raw = {"metadata": meta, "spec": {"model": {"source": source}}}

    await on_event(event={"type": "ADDED", "object": raw})
    assert list(store.pools) == ["u"]
    await on_event(event={"type": "DELETED", "object": raw})
    assert store.pools == {}
    assert enqueued == [frozenset({"u"}), frozenset({"u"})]


def test_every_handler_is_under_ten_lines() -> None:
    tree = ast.parse(inspect.getsource(handlers))
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 10, node.name
