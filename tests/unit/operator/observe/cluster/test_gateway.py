"""The gateway of a namespace, from stored objects and the answers of its pods over real sockets."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import pytest
from aiohttp import web

from penstock_api import names
from penstock_api.hold import StartPart
from penstock_operator.kube import kinds
from penstock_operator.net.http import new_session
from penstock_operator.observe.cluster.cache import ObjectStore
from penstock_operator.observe.cluster.gateway import (
    GatewayAnswers,
    counters,
    gateway_pods,
    gateway_view,
    routed_pools,
)
from penstock_operator.observe.gateway_status import CACHE_SECONDS, GatewayReader
from penstock_operator.observed import OfferedDemand, PoolObject
from tests.unit.operator.observe.cluster import raw_objects as raw
from tests.unit.operator.observe.signals.exporter import free_address

PORT = 20_003
LABELS = raw.labels(names.GATEWAY_UID)
READY = [{"type": "Ready", "status": "True"}]
NOW = 1_000_000.0
FORGED: tuple[Any, ...] = (1, [1], {"a": 1}, [{"resource": 1, "message": ""}], [{}])


def service(uid: str = "svc-1", pool_uid: str = "pool-1", port: str = str(PORT)) -> raw.Json:
    metadata = raw.meta(
        "chat",
        uid,
        labels=raw.labels(pool_uid),
        annotations={names.ANNOTATION_GATEWAY_PORT: port},
        ownerReferences=raw.owned("InferencePool", pool_uid),
    )
    return {"metadata": metadata, "spec": {"selector": {names.LABEL_POOL_UID: pool_uid}}}


def gateway_deployment(**more: Any) -> raw.Json:
    owner = {**raw.owned("InferencePool", "pool-1")[0], "controller": False}
    metadata = raw.meta(
        names.GATEWAY_NAME, "gw-deployment", labels=LABELS, ownerReferences=[owner], **more
    )
    return {"metadata": metadata, "spec": {"replicas": 2}}


def gateway_pod(uid: str, ip: str, replica_set: str = "gw-rs", **more: Any) -> raw.Json:
    stored = raw.pod(uid, replica_set, names.GATEWAY_UID, podIP=ip, conditions=READY)
    stored["metadata"].update(more)
    return stored


def store_with(*pods: raw.Json) -> ObjectStore:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw.pool(routing={"mode": "Gateway"}))
    store.upsert(kinds.SERVICE, service())
    store.upsert(kinds.DEPLOYMENT, gateway_deployment())
    store.upsert(kinds.REPLICA_SET, raw.replica_set("gw-rs", "gw-deployment", names.GATEWAY_UID))
    for each in pods:
        store.upsert(kinds.POD, each)
    return store


def chat(store: ObjectStore) -> PoolObject:
    return store.pools["pool-1"]


def accepted(port: int = PORT, **more: Any) -> raw.Json:
    return {"pools": {"chat": {"port": port, "resources": {"Listener": "Accepted"}, **more}}}


def test_an_event_of_the_gateway_concerns_the_pools_that_own_it() -> None:
    store = store_with()
    changed = gateway_deployment(annotations={"a": "b"})
    changed["metadata"]["resourceVersion"] = "9"
    assert store.upsert(kinds.DEPLOYMENT, changed) == frozenset({"pool-1"})
    assert store.upsert(kinds.POD, gateway_pod("p1", "127.0.0.1")) == frozenset()


def test_the_pools_that_a_gateway_has_to_know() -> None:
    store = store_with()
    store.upsert(kinds.POOL, raw.pool("pool-2", name="plain"))
    tls = {"secretRef": {"name": "far-tls"}}
    store.upsert(kinds.POOL, raw.pool("pool-3", name="far", routing={"mode": "Gateway"}, tls=tls))
    known = routed_pools(store, {"team-a"})
    assert [(pool.name, pool.wanted, pool.port, pool.certificate) for pool in known] == [
        ("chat", True, PORT, None),
        ("far", True, None, "far-tls"),
    ]
    assert routed_pools(store, {"team-b"}) == ()


def test_an_unreadable_pool_stays_routed_and_leaves_the_gateways_objects_to_the_others() -> None:
    store, tls = store_with(), {"secretRef": {"name": "chat-tls"}}
    unread = raw.pool(
        version=2, routing={"mode": "Gateway"}, tls=tls, scaling={"mode": "Telepathy"}
    )
    store.upsert(kinds.POOL, unread)
    (known,) = routed_pools(store, {"team-a"})
    assert (known.wanted, known.port, known.certificate) == (True, PORT, "chat-tls")
    assert known.created == inf


def test_a_port_on_a_service_of_another_owner_is_not_the_pools() -> None:
    store = store_with()
    stranger = service(pool_uid="pool-9")
    stranger["metadata"]["resourceVersion"] = "8"
    store.upsert(kinds.SERVICE, stranger)
    assert [pool.port for pool in routed_pools(store, {"team-a"})] == [None]


def test_only_ready_pods_of_the_gateways_own_deployment_are_asked() -> None:
    terminating = gateway_pod("p2", "127.0.0.2", deletionTimestamp=raw.CREATED)
    imitated = gateway_pod("p3", "127.0.0.3", replica_set="other-rs")
    store = store_with(gateway_pod("p1", "127.0.0.1"), terminating, imitated)
    assert [pod.name for pod in gateway_pods(store, "team-a")] == ["chat-p1"]
    assert list(gateway_pods(store, "team-b")) == []


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (accepted(), ""),
        (accepted(port=1), "pod gw: it does not know the pool yet"),
        ({"pools": {}}, "pod gw: it does not know the pool yet"),
        ({"pools": []}, "pod gw: it does not know the pool yet"),
        ({"unroutableServices": {"chat": "no port"}}, "pod gw: no port"),
        (
            accepted(resources={"Listener": "Sent"}),
            "pod gw: Envoy has not accepted the listener yet",
        ),
        (
            accepted(resources={"Listener": "Accepted", "Secret": "Sent"}),
            "pod gw: Envoy has not accepted the secret yet",
        ),
        (accepted(resources={"Listener": "Accepted", "Endpoints": "Sent"}), ""),
        (
            accepted(certificateProblem="key mismatch"),
            "pod gw: its certificate is not renewed: key mismatch",
        ),
        (
            accepted(rejections=[{"resource": "Cluster", "message": "bad"}]),
            "pod gw: Envoy rejected its cluster: bad",
        ),
        *(
            (
                accepted(rejections=forged),
                "pod gw: its rejections are not in the format of a gateway's status",
            )
            for forged in FORGED
        ),
        ("/status is unreachable", "pod gw: /status is unreachable"),
    ],
)
def test_a_gateway_listens_when_each_of_its_pods_does(answer: Any, problem: str) -> None:
    store = store_with()
    seen = gateway_view(store, chat(store), {}, GatewayAnswers({"ok": accepted(), "gw": answer}))
    assert (seen.pods, seen.listening, seen.problem) == (2, not problem, problem)
    assert list(seen.children) == [("Deployment", names.GATEWAY_NAME)]


@pytest.mark.parametrize(
    ("answers", "counted"),
    [
        ({"a": accepted(offered=3), "b": accepted(offered=4)}, {"chat": {"a": 3, "b": 4}}),
        ({"a": accepted(offered=3), "b": accepted(offered=None)}, {}),
        ({"a": accepted(offered=3), "b": "/status is unreachable"}, {}),
        ({"a": accepted(offered=True)}, {}),
        ({"a": accepted(offered=-1)}, {}),
        ({"a": accepted(offered=10**400)}, {}),
        ({"a": {"pools": []}}, {}),
        ({}, {}),
    ],
)
def test_demand_is_counted_where_every_pod_of_the_gateway_counts(
    answers: Any, counted: Any
) -> None:
    assert counters(answers) == counted


def test_a_gateway_without_ready_pods_does_not_listen() -> None:
    store = store_with()
    assert not gateway_view(store, chat(store), {}, GatewayAnswers()).listening


def test_a_gateway_holds_when_each_of_its_pods_does_and_their_requests_add_up() -> None:
    store = store_with()

    def seen(**by_pod: Any) -> tuple[bool, int]:
        view = gateway_view(store, chat(store), {}, GatewayAnswers(by_pod))
        return view.holding, view.held_requests

    holding = accepted(holds=True, held=None)
    assert seen() == (False, 0)
    assert seen(a=holding, b=accepted(holds=True, held={"requests": 2, "seconds": 1})) == (True, 2)
    assert seen(a=holding, b=accepted()) == (False, 0)
    assert seen(a=holding, b="/status is unreachable") == (False, 0)
    assert seen(a=accepted(holds=True, held="many")) == (True, 0)
    assert seen(a=accepted(holds=True, held={"requests": 10**400})) == (True, 0)


def test_the_last_start_is_the_one_that_ended_last_of_those_reported_whole() -> None:
    store = store_with()

    def seen(**by_pod: Any) -> list[float]:
        view = gateway_view(store, chat(store), {}, GatewayAnswers(by_pod))
        return list(view.last_start.values())

    def start(ended: float, seconds: float) -> dict[str, Any]:
        parts = dict.fromkeys(StartPart, seconds)
        return accepted(lastStart={"ended": ended, "seconds": parts})

    assert seen(a=accepted(lastStart=None), b="/status is unreachable") == []
    assert seen(a=start(20, 2), b=start(10, 1)) == [2.0] * len(StartPart)
    assert seen(a=start(20, 2), b=start(10**400, 1), c=start(30, float("inf"))) == [2.0] * len(
        StartPart
    )
    part = accepted(lastStart={"ended": 30, "seconds": {"Model": 1}})
    assert seen(a=part, b=start(10, 1)) == [1.0] * len(StartPart)
    assert seen(a=accepted(lastStart={"ended": "soon"})) == []


@asynccontextmanager
async def answering(body: str, status: int = 200) -> AsyncIterator[tuple[str, list[str]]]:
    """Serve the status of a gateway's pod; yield its address and the paths that were requested."""
    requested: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        requested.append(request.path)
        return web.Response(status=status, text=body)

    app, address = web.Application(), free_address()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, address, names.GATEWAY_STATUS_PORT).start()
    try:
        yield address, requested
    finally:
        await runner.cleanup()


async def test_the_pools_of_a_pass_share_one_request_to_each_pod() -> None:
    async with answering('{"pools": {}}') as (address, requested), new_session() as session:
        store = store_with(gateway_pod("p1", address))
        reader = GatewayReader(session, store)
        for later in (0.0, CACHE_SECONDS / 2, CACHE_SECONDS, -900.0):  # the clock stepped back
            answers = await reader.read(chat(store), NOW + later)
            assert answers.by_pod == {"chat-p1": {"pools": {}}}
    assert requested == [names.PATH_GATEWAY_STATUS] * 3


async def test_what_a_terminating_gateway_holds_counts_but_it_does_not_listen() -> None:
    body = json.dumps(accepted(holds=False, held={"requests": 1, "seconds": 1}, offered=5))
    leaving = {"deletionTimestamp": raw.CREATED}
    async with answering(body) as (address, _), new_session() as session:
        store = store_with(gateway_pod("p1", address, **leaving))
        answers = await GatewayReader(session, store).read(chat(store), NOW)
        assert (answers.by_pod, answers.offered) == ({}, {})
        view = gateway_view(store, chat(store), {}, answers)
        assert (view.pods, view.listening, view.holding, view.held_requests) == (0, False, False, 1)


async def test_a_terminating_gateway_that_is_silent_delays_a_pass_less_than_a_ready_one() -> None:
    silent = socket.create_server((free_address(), names.GATEWAY_STATUS_PORT))
    leaving = {"deletionTimestamp": raw.CREATED}
    with silent:
        async with new_session() as session:
            store = store_with(gateway_pod("p1", silent.getsockname()[0], **leaving))
            answers = await GatewayReader(session, store).read(chat(store), NOW)
    assert answers.unready == (f"{names.PATH_GATEWAY_STATUS} did not respond within 0.5 s",)


async def test_the_demand_of_a_pool_is_the_growth_of_its_gateways_counters() -> None:
    counted = 0

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(accepted(offered=counted))

    app, address = web.Application(), free_address()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, address, names.GATEWAY_STATUS_PORT).start()
    store = store_with(gateway_pod("p1", address))
    async with new_session() as session:
        reader = GatewayReader(session, store)
        for second in (0, 5, 10):
            counted = 20 * second
            answers = await reader.read(chat(store), NOW + second)
            view = gateway_view(store, chat(store), {}, answers)
            assert view.offered == (OfferedDemand(20.0, 20.0, 20.0) if second == 10 else None)
        await runner.cleanup()
        answers = await reader.read(chat(store), NOW + 15)
        assert gateway_view(store, chat(store), {}, answers).offered is None


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        ("no", 200, "/status returned something that is not JSON"),
        ("[" * 100_000, 200, "/status returned something that is not JSON"),
        ("[]", 200, "/status responded 200"),
        ("{}", 503, "/status responded 503"),
    ],
)
async def test_a_wrong_answer_is_a_problem(body: str, status: int, problem: str) -> None:
    async with answering(body, status) as (address, _), new_session() as session:
        store = store_with(gateway_pod("p1", address))
        answers = await GatewayReader(session, store).read(chat(store), NOW)
    assert answers.by_pod == {"chat-p1": problem}


async def test_a_pool_that_is_not_routed_sends_no_request() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, raw.pool())
    store.upsert(kinds.SERVICE, service())
    async with new_session() as session:
        answers = await GatewayReader(session, store).read(chat(store), NOW)
    assert answers.by_pod == {}
