"""Which Services are routed, to which pods, and why a Service is not."""

from dataclasses import replace

import msgspec
import pytest

from penstock_api import names
from penstock_api.body_limits import BodyLimits
from penstock_gateway.objects import PoolCertificate, WatchedPod, WatchedService
from penstock_gateway.snapshot import Endpoint, Route, draining, snapshot
from tests.support.gateway import api_server
from tests.unit.gateway.values import SETTINGS, pod, service


def test_a_service_that_announces_a_port_is_routed_to_the_ready_pods_of_its_pool() -> None:
    pods = [pod("b-1", "b"), pod("a-2", "a", "10.0.0.2"), pod("a-1", "a", "10.0.0.1")]
    routed = snapshot([service("a", 10001)], pods, SETTINGS)
    endpoints = (Endpoint("a-1", "10.0.0.1", 8000), Endpoint("a-2", "10.0.0.2", 8000))
    assert routed.routes == {"a": Route("a", 10001, endpoints)}
    assert routed.problems == {}


@pytest.mark.parametrize(
    ("annotation", "limits"),
    [
        ('{"max_bytes": 2048, "timeout_seconds": 5}', BodyLimits(2048, 5)),
        ('{"max_bytes": 2048}', BodyLimits(2048)),
        ("", BodyLimits()),
        ("2048", BodyLimits()),
        ('{"max_bytes": "2Ki"}', BodyLimits()),
        ('{"max_bytes": 0}', BodyLimits()),
        ('{"max_bytes": true}', BodyLimits()),
        ('{"max_bytes": 2048, "of_later": 1}', BodyLimits(2048)),
        ("[" * 200_000, BodyLimits()),
    ],
)
def test_the_limits_of_a_body_are_those_on_the_service(annotation: str, limits: BodyLimits) -> None:
    own = service("a")
    own.metadata.annotations[names.ANNOTATION_GATEWAY_BODY] = annotation
    assert snapshot([own], [], SETTINGS).routes["a"].body == limits


def test_a_service_that_announces_no_port_is_not_routed() -> None:
    plain = service("a")
    plain.metadata.annotations.clear()
    routed = snapshot([plain], [pod("a-1", "a")], SETTINGS)
    assert (routed.routes, routed.problems) == ({}, {})


@pytest.mark.parametrize(
    "left_out",
    [
        pod("a-1", "a", ready=False),
        pod("a-1", "a", deleting=True),
        pod("a-1", "a", address=""),
        msgspec.structs.replace(
            pod("a-1", "a"), status=msgspec.structs.replace(pod("a-1", "a").status, phase="Failed")
        ),
    ],
    ids=["not ready", "deletionTimestamp", "no address", "ended"],
)
def test_a_pod_is_an_endpoint_only_while_it_serves(left_out: WatchedPod) -> None:
    pods = [left_out, pod("a-2", "a", "10.0.0.2")]
    assert snapshot([service("a")], pods, SETTINGS).routes["a"].endpoints == (
        Endpoint("a-2", "10.0.0.2"),
    )


def test_pods_of_a_former_pool_with_the_same_name_are_no_endpoints() -> None:
    own = service("a", **{names.LABEL_POOL_UID: "new-uid"})
    assert snapshot([own], [pod("a-1", "a")], SETTINGS).routes["a"].endpoints == ()
    own = service("a", **{names.LABEL_POOL_UID: "a-uid"})
    assert len(snapshot([own], [pod("a-1", "a")], SETTINGS).routes["a"].endpoints) == 1


@pytest.mark.parametrize(
    ("port", "problem"),
    [
        (
            "http",
            "penstock.dev/gateway-port must be a listener's port from 1024 to 65535, got 'http'",
        ),
        (80, "penstock.dev/gateway-port must be a listener's port from 1024 to 65535, got '80'"),
        (8091, "port 8091 is a port of the gateway itself"),
    ],
)
def test_a_port_that_is_no_listeners_is_a_problem_of_its_service(
    port: int | str, problem: str
) -> None:
    routed = snapshot([service("a", port), service("b", 10002)], [], SETTINGS)
    assert list(routed.routes) == ["b"]
    assert routed.problems["a"].startswith(problem)


def test_of_two_pools_with_one_port_the_first_by_name_keeps_it() -> None:
    routed = snapshot([service("b", 10001), service("a", 10001)], [], SETTINGS)
    assert list(routed.routes) == ["a"]
    assert routed.problems == {"b": "port 10001 is already that of pool a: allocate another"}


def test_the_service_with_the_pools_own_name_wins() -> None:
    second = api_server.service("z", 10001)
    second["metadata"]["name"] = "a-second"
    routed = snapshot(
        [msgspec.convert(second, WatchedService), service("z", 10002)], [pod("z-1", "z")], SETTINGS
    )
    assert routed.routes["z"].port == 10002
    assert routed.problems == {"a-second": "another Service already routes pool z: delete this one"}


def test_a_pool_that_serves_tls_is_routed_with_its_certificate() -> None:
    pods = [pod("a-1", "a", "10.0.0.1", scheme="https"), pod("a-2", "a", "10.0.0.2")]
    certificate = PoolCertificate("chain", "key")
    secured = service("a", scheme="https")
    routed = snapshot([secured], pods, SETTINGS, {"a": certificate}).routes["a"]
    assert routed.certificate == certificate
    assert [endpoint.secure for endpoint in routed.endpoints] == [True, False]
    assert snapshot([service("a")], pods, SETTINGS, {"a": certificate}).routes["a"] == replace(
        routed, certificate=None
    )


@pytest.mark.parametrize(
    ("certificates", "problem"),
    [({}, "create the Secret of spec.tls"), ({"a": "key mismatch"}, "key mismatch")],
)
def test_a_pool_that_serves_tls_is_not_routed_without_its_certificate(
    certificates: dict[str, PoolCertificate | str], problem: str
) -> None:
    routed = snapshot([service("a", scheme="https")], [], SETTINGS, certificates)
    assert routed.routes == {}
    assert problem in routed.problems["a"]


@pytest.mark.parametrize(
    ("unroutable", "certificates"),
    [
        (service("b", scheme="https"), {"b": "key mismatch"}),
        (service("b", scheme="https"), {}),
        (service("b", "http"), {}),
        (service("b", 8091), {}),
        (service("b", 10001), {}),
    ],
    ids=["pair that mismatches", "no Secret", "no port", "reserved port", "port of another pool"],
)
def test_a_pool_whose_service_cannot_be_routed_is_kept_with_its_pods(
    unroutable: WatchedService, certificates: dict[str, PoolCertificate | str]
) -> None:
    pods = [pod("b-1", "b", "10.0.0.1"), pod("b-2", "b", ready=False)]
    partial = snapshot([service("a", 10001), unroutable], pods, SETTINGS, certificates)
    assert partial.kept == {"b": Route("b", 0, (Endpoint("b-1", "10.0.0.1"),))}
    assert (list(partial.routes), set(partial.served)) == (["a"], {"a", "b"})


def test_a_pool_is_not_kept_once_its_service_is_gone_or_announces_no_port() -> None:
    plain = service("a", scheme="https")
    plain.metadata.annotations.clear()
    assert snapshot([plain], [pod("a-1", "a")], SETTINGS).served == {}
    assert snapshot([], [pod("a-1", "a")], SETTINGS).served == {}


def test_a_pool_that_another_service_routes_is_not_kept() -> None:
    second = api_server.service("z", "http")
    second["metadata"]["name"] = "a-second"
    services = [msgspec.convert(second, WatchedService), service("z", 10002)]
    assert snapshot(services, [], SETTINGS).kept == {}


def test_a_draining_pool_keeps_the_pods_that_serve() -> None:
    pods = [pod("a-1", "a", "10.0.0.1"), pod("a-2", "a", ready=False), pod("b-1", "b")]
    assert draining(["a"], pods) == {"a": Route("a", 0, (Endpoint("a-1", "10.0.0.1"),))}
