"""The order of deliveries, and a rejection that concerns one pool."""

from dataclasses import replace

from penstock_gateway.objects import PoolCertificate
from penstock_gateway.resources.pools import (
    READINESS,
    Configuration,
    EnvoyResource,
    Kind,
    configuration,
)
from penstock_gateway.snapshot import Snapshot, draining, snapshot
from penstock_gateway.xds.session import (
    DeliveryState,
    DeltaRequest,
    DeltaResponse,
    RejectedVersion,
    Session,
)
from tests.unit.gateway.values import SETTINGS, made_of, pod, route, service

A, B = route("a", 10001), route("b", 10002)


def with_cluster(configuration: Configuration) -> Configuration:
    """Return the configuration with another cluster of pool `a`."""
    cluster = EnvoyResource(Kind.CLUSTER, "a", {"name": "a", "connect_timeout": "9s"})
    return replace(configuration, pools={"a": replace(configuration.pools["a"], cluster=cluster)})


class Envoy:
    """The client's side: subscribes as Envoy does, and accepts all but `refused`."""

    def __init__(
        self, session: Session, refused: frozenset[tuple[Kind, str]] = frozenset()
    ) -> None:
        self.session = session
        self.refused = refused
        self.log: list[tuple[Kind, str, str | None]] = []
        """Kind, name, and version; None: removed."""

    def connect(self, versions: dict[Kind, dict[str, str]] | None = None) -> None:
        """Subscribe to every kind; `versions` are those in force from a former connection."""
        for kind in (Kind.CLUSTER, Kind.LISTENER):
            known = (versions or {}).get(kind, {})
            self.session.receive(DeltaRequest(kind, versions=known))
        known = (versions or {}).get(Kind.ENDPOINTS, {})
        if known:
            self.session.receive(
                DeltaRequest(Kind.ENDPOINTS, subscribe=tuple(known), versions=known)
            )

    def settle(self) -> None:
        """Answer until nothing more is sent."""
        while responses := list(self.session.responses()):
            for response in responses:
                self.answer(response)

    def answer(self, response: DeltaResponse) -> None:
        """Record a response, and accept or reject it."""
        error, name = None, response.removed
        if response.resource is not None:
            name = response.resource.name
            if (response.kind, name) in self.refused:
                error = f"{name} is bad"
        if name is not None:
            version = response.resource.version if response.resource else None
            self.log.append((response.kind, name, version))
        self.session.receive(DeltaRequest(response.kind, nonce=response.nonce, error=error))
        if response.kind is Kind.CLUSTER and name and error is None:
            subscription = (name,) if response.resource else ()
            gone = () if response.resource else (name,)
            self.session.receive(DeltaRequest(Kind.ENDPOINTS, subscription, gone))

    def names(self, kind: Kind) -> list[str]:
        """Return the names that were sent, in order."""
        return [name for of, name, _ in self.log if of is kind]


def connected(session: Session, refused: frozenset[tuple[Kind, str]] = frozenset()) -> Envoy:
    """Return an Envoy that connected and answered all that was sent."""
    envoy = Envoy(session, refused)
    envoy.connect()
    envoy.settle()
    return envoy


def test_a_listener_follows_its_cluster_and_its_endpoints_and_readiness_comes_last() -> None:
    envoy = connected(Session(made_of(A)))
    assert [(kind, name) for kind, name, _ in envoy.log] == [
        (Kind.CLUSTER, "a"),
        (Kind.ENDPOINTS, "a"),
        (Kind.LISTENER, "a"),
        (Kind.LISTENER, READINESS),
    ]
    assert envoy.session.ready
    assert set(envoy.session.states("a").values()) == {DeliveryState.ACCEPTED}


def test_every_response_has_one_resource() -> None:
    session = Session(made_of(A, B))
    Envoy(session).connect()
    clusters = [sent for sent in session.responses() if sent.kind is Kind.CLUSTER]
    assert [sent.resource.name for sent in clusters if sent.resource] == ["a", "b"]


def test_nothing_is_sent_before_the_first_configuration() -> None:
    session = Session()
    envoy = Envoy(session)
    envoy.connect({Kind.CLUSTER: {"a": "1"}, Kind.LISTENER: {"a": "1"}})
    envoy.settle()
    assert envoy.log == []
    assert not session.ready


def test_an_envoy_without_pools_gets_an_empty_response_of_each_kind_so_that_it_starts() -> None:
    session = Session(made_of())
    Envoy(session).connect()
    sent = {response.kind: response.resource for response in session.responses()}
    assert sent == {Kind.CLUSTER: None, Kind.LISTENER: made_of().readiness}


def test_a_rejected_listener_leaves_the_pools_last_good_one_and_every_other_pool() -> None:
    session = Session(made_of(A))
    envoy = connected(session)
    (in_force,) = (
        version for kind, name, version in envoy.log if (kind, name) == (Kind.LISTENER, "a")
    )
    envoy.refused = frozenset({(Kind.LISTENER, "a")})
    changed = made_of(route("a", 10003), B)
    session.replace(changed)
    envoy.settle()
    assert session.states("a")[Kind.LISTENER] is DeliveryState.REJECTED
    version = changed.pools["a"].listener.version
    assert session.rejections() == {(Kind.LISTENER, "a"): RejectedVersion(version, "a is bad")}
    assert set(session.states("b").values()) == {DeliveryState.ACCEPTED}
    session.replace(made_of(A, B))
    envoy.settle()
    assert session.rejections() == {}
    assert session.states("a")[Kind.LISTENER] is DeliveryState.ACCEPTED
    assert envoy.log[-1][2] != in_force  # the good version is in force still: it was not sent again


def test_a_rejected_version_is_not_sent_again() -> None:
    session = Session(made_of(A))
    envoy = connected(session, frozenset({(Kind.CLUSTER, "a")}))
    session.replace(made_of(A, B))
    envoy.settle()
    assert envoy.names(Kind.CLUSTER) == ["a", "b"]


def test_a_pool_whose_first_cluster_is_rejected_gets_no_listener_and_delays_no_readiness() -> None:
    session = Session(made_of(A, B))
    envoy = connected(session, frozenset({(Kind.CLUSTER, "a")}))
    assert envoy.names(Kind.LISTENER) == ["b", READINESS]
    assert session.states("a")[Kind.LISTENER] is DeliveryState.PENDING
    assert session.ready


def test_only_the_endpoints_are_sent_when_pods_change() -> None:
    session = Session(made_of(A, B))
    envoy = connected(session)
    envoy.log.clear()
    session.replace(made_of(route("a", 10001, ("10.0.0.1", "10.0.0.2")), B))
    envoy.settle()
    assert [(kind, name) for kind, name, _ in envoy.log] == [(Kind.ENDPOINTS, "a")]


def test_the_newest_version_follows_the_answer_to_the_one_on_the_way() -> None:
    session = Session(made_of(A))
    envoy = connected(session)
    session.replace(made_of(route("a", 10001, ("10.0.0.2",))))
    (on_the_way,) = session.responses()
    for number in range(3, 6):
        session.replace(made_of(route("a", 10001, (f"10.0.0.{number}",))))
        assert list(session.responses()) == []
    assert session.states("a")[Kind.ENDPOINTS] is DeliveryState.SENT
    envoy.answer(on_the_way)
    (last,) = session.responses()
    assert last.resource is not None
    assert (
        last.resource.version
        == made_of(route("a", 10001, ("10.0.0.5",))).pools["a"].endpoints.version
    )


def test_a_changed_cluster_is_followed_by_its_endpoints_without_waiting_for_an_answer() -> None:
    session = Session(made_of(A))
    endpoints = made_of(A).pools["a"].endpoints.version
    versions = {Kind.CLUSTER: {"a": "older"}, Kind.ENDPOINTS: {"a": endpoints}}
    Envoy(session).connect(versions)
    sent = [response.kind for response in session.responses() if response.resource]
    assert sent[:2] == [Kind.CLUSTER, Kind.ENDPOINTS]
    assert session.states("a")[Kind.ENDPOINTS] is DeliveryState.SENT


def test_a_cluster_that_is_sent_before_envoy_names_its_endpoints_is_followed_by_them() -> None:
    session = Session(made_of(A))
    endpoints = made_of(A).pools["a"].endpoints.version
    session.receive(DeltaRequest(Kind.CLUSTER, versions={"a": "older"}))
    assert [sent.kind for sent in session.responses() if sent.resource] == [Kind.CLUSTER]
    session.receive(DeltaRequest(Kind.ENDPOINTS, ("a",), versions={"a": endpoints}))
    assert [sent.kind for sent in session.responses() if sent.resource] == [Kind.ENDPOINTS]


def test_no_cluster_is_removed_before_envoy_names_its_listeners() -> None:
    session = Session(made_of(A))
    older = {"a": made_of(A).pools["a"].cluster.version, "b": "1", "c": "1"}
    session.receive(DeltaRequest(Kind.CLUSTER, versions=older))
    assert [sent.removed for sent in session.responses() if sent.removed] == []
    session.receive(DeltaRequest(Kind.LISTENER, versions={"b": "1"}))
    removed = [(sent.kind, sent.removed) for sent in session.responses() if sent.removed]
    assert removed == [(Kind.CLUSTER, "c"), (Kind.LISTENER, "b")]


def test_the_answer_to_replaced_endpoints_is_not_that_to_the_later_ones() -> None:
    session = Session(made_of(A))
    envoy = connected(session)
    session.replace(made_of(route("a", 10001, ("10.0.0.2",))))
    (replaced,) = session.responses()
    session.replace(with_cluster(made_of(route("a", 10001, ("10.0.0.3",)))))
    _, later = session.responses()
    envoy.answer(replaced)
    assert session.states("a")[Kind.ENDPOINTS] is DeliveryState.SENT
    envoy.answer(later)
    assert session.states("a")[Kind.ENDPOINTS] is DeliveryState.ACCEPTED


def test_a_removed_pool_loses_its_listener_before_its_cluster() -> None:
    session = Session(made_of(A, B))
    envoy = connected(session)
    envoy.log.clear()
    session.replace(made_of(B))
    envoy.settle()
    assert envoy.log == [(Kind.LISTENER, "a", None), (Kind.CLUSTER, "a", None)]
    session.replace(made_of(A, B))
    envoy.settle()
    assert envoy.names(Kind.LISTENER) == ["a", "a"]


def test_a_draining_pool_loses_its_listener_at_once_and_its_cluster_later() -> None:
    before = made_of(A, B)
    session = Session(before)
    envoy = connected(session)
    envoy.log.clear()
    drained = Snapshot({"b": B}, {"a": route("a", 0)})
    session.replace(configuration(drained, SETTINGS, before))
    envoy.settle()
    assert envoy.log == [(Kind.LISTENER, "a", None)]
    session.replace(made_of(B))
    envoy.settle()
    assert envoy.log[1:] == [(Kind.CLUSTER, "a", None)]


def test_endpoints_of_a_draining_pool_follow_its_pods() -> None:
    before = made_of(A, B)
    session = Session(before)
    envoy = connected(session)
    envoy.log.clear()
    drained = Snapshot({"b": B}, {"a": route("a", 0, ("10.0.0.7",))})
    session.replace(configuration(drained, SETTINGS, before))
    envoy.settle()
    assert [(kind, name) for kind, name, _ in envoy.log] == [
        (Kind.ENDPOINTS, "a"),
        (Kind.LISTENER, "a"),
    ]


def test_a_draining_pool_keeps_its_cluster_with_the_cas_of_its_pods() -> None:
    secured, pods = service("a", scheme="https"), [pod("a-1", "a", scheme="https")]
    known = {"a": PoolCertificate("chain", "key", "ca")}
    routed = snapshot([secured], pods, SETTINGS, known)
    before = configuration(routed, SETTINGS)
    drained = Snapshot(draining=draining({"a"}, pods))
    kept = snapshot([secured], pods, SETTINGS, {"a": "key mismatch"})
    for former in (before, configuration(kept, SETTINGS, before)):
        session = Session(before)
        envoy = Envoy(session)
        envoy.connect(versions_in_force(before))
        session.receive(
            DeltaRequest(Kind.SECRET, ("a",), versions=versions_in_force(before)[Kind.SECRET])
        )
        envoy.settle()
        envoy.log.clear()
        session.replace(former)
        envoy.settle()
        session.replace(configuration(drained, SETTINGS, former))
        envoy.settle()
        assert envoy.log == [(Kind.LISTENER, "a", None)]


def test_a_pool_that_never_got_a_listener_loses_its_cluster() -> None:
    session = Session(made_of(A, B))
    envoy = connected(session, frozenset({(Kind.LISTENER, "a")}))
    envoy.log.clear()
    session.replace(made_of(B))
    envoy.settle()
    assert envoy.log == [(Kind.CLUSTER, "a", None)]


def test_a_new_server_sends_only_what_differs_from_what_envoy_has() -> None:
    former = connected(Session(made_of(A, B)))
    versions: dict[Kind, dict[str, str]] = {}
    for kind, name, version in former.log:
        versions.setdefault(kind, {})[name] = version or ""
    session = Session(made_of(A))
    envoy = Envoy(session)
    envoy.connect(versions)
    assert session.ready
    envoy.settle()
    assert envoy.log == [(Kind.LISTENER, "b", None), (Kind.CLUSTER, "b", None)]


def test_a_certificate_is_sent_when_envoy_subscribes_to_it_and_readiness_waits_for_it() -> None:
    secured = replace(A, certificate=PoolCertificate("chain", "key"))
    session = Session(made_of(secured))
    envoy = connected(session)
    assert session.states("a")[Kind.SECRET] is DeliveryState.PENDING
    assert not session.ready
    session.receive(DeltaRequest(Kind.SECRET, subscribe=("a",)))
    envoy.settle()
    assert session.states("a")[Kind.SECRET] is DeliveryState.ACCEPTED
    assert session.ready
    renewed = replace(A, certificate=PoolCertificate("renewed", "key"))
    envoy.log.clear()
    session.replace(made_of(renewed))
    envoy.settle()
    assert [(kind, name) for kind, name, _ in envoy.log] == [(Kind.SECRET, "a")]
    session.replace(made_of(A))
    envoy.settle()
    assert Kind.SECRET not in session.states("a")


def versions_in_force(configuration: Configuration) -> dict[Kind, dict[str, str]]:
    """Return the versions that an Envoy has which accepted all of pool `a`."""
    resources = ((kind, configuration.find(kind, "a")) for kind in Kind)
    return {kind: {"a": resource.version} for kind, resource in resources if resource}


def test_a_new_server_without_a_valid_certificate_leaves_a_pool_with_tls_as_it_is() -> None:
    secured, pods = service("a", scheme="https"), [pod("a-1", "a", scheme="https")]
    valid = snapshot([secured], pods, SETTINGS, {"a": PoolCertificate("chain", "key")})
    former = versions_in_force(configuration(valid, SETTINGS))
    for unusable in ({"a": "key mismatch"}, {}):
        session = Session(configuration(snapshot([secured], pods, SETTINGS, unusable), SETTINGS))
        envoy = Envoy(session)
        envoy.connect({**former, Kind.LISTENER: {**former[Kind.LISTENER], READINESS: "former"}})
        session.receive(DeltaRequest(Kind.SECRET, ("a",), versions=former[Kind.SECRET]))
        envoy.settle()
        assert [(kind, name) for kind, name, _ in envoy.log] == [(Kind.LISTENER, READINESS)]
        session.replace(configuration(valid, SETTINGS))
        envoy.settle()
        assert envoy.names(Kind.LISTENER) == [READINESS]
        assert set(session.states("a").values()) == {DeliveryState.ACCEPTED}


def test_a_pool_that_gets_tls_keeps_its_listener_until_there_is_a_certificate() -> None:
    pods, secured = [pod("a-1", "a")], service("a", scheme="https")
    before = configuration(snapshot([service("a")], pods, SETTINGS), SETTINGS)
    session = Session(before)
    envoy = connected(session)
    envoy.log.clear()
    waiting = configuration(snapshot([secured], pods, SETTINGS), SETTINGS, before)
    session.replace(waiting)
    envoy.settle()
    assert envoy.log == []
    valid = snapshot([secured], pods, SETTINGS, {"a": PoolCertificate("chain", "key")})
    session.replace(configuration(valid, SETTINGS, waiting))
    envoy.settle()
    assert None not in {version for *_, version in envoy.log}
    assert Kind.LISTENER in {kind for kind, *_ in envoy.log}


def test_the_endpoints_of_a_kept_pool_follow_its_pods_until_its_service_is_gone() -> None:
    before = made_of(A, B)
    session = Session(before)
    envoy = connected(session)
    envoy.log.clear()
    kept = Snapshot({"b": B}, kept={"a": route("a", 0, ("10.0.0.7",))})
    session.replace(configuration(kept, SETTINGS, before))
    envoy.settle()
    assert [(kind, name) for kind, name, _ in envoy.log] == [(Kind.ENDPOINTS, "a")]
    session.replace(made_of(B))
    envoy.settle()
    assert envoy.log[1:] == [(Kind.LISTENER, "a", None), (Kind.CLUSTER, "a", None)]


def test_an_envoy_that_has_nothing_of_a_kept_pool_gets_nothing_and_is_ready() -> None:
    session = Session(configuration(Snapshot(kept={"a": route("a", 0)}), SETTINGS))
    envoy = connected(session)
    assert [(kind, name) for kind, name, _ in envoy.log] == [(Kind.LISTENER, READINESS)]
    assert session.ready


def test_a_kind_that_the_server_does_not_have_is_ignored() -> None:
    session = Session(made_of(A))
    session.receive(DeltaRequest("type.googleapis.com/envoy.config.route.v3.RouteConfiguration"))
    assert list(session.responses()) == []
