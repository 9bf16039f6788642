"""A pool that is routed through its namespace's gateway: objects, steps of its Service, and the condition Routed."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from typing_extensions import override

from penstock_api import names
from penstock_api.body_limits import BodyLimits
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.config import DecideConfig, GatewayConfig, PoolPeers
from penstock_operator.decide.manifests.gateway import labels
from penstock_operator.decide.route import LEAVING_SECONDS, live_route
from penstock_operator.observed import ChildObject, GatewayView, Observed, PoolView, RoutedPool
from tests.unit.operator.decide.world import CONFIG, NOW, World, child, message, pod, pool, reason

GATEWAY = GatewayConfig(
    "registry.example/gateway:1", "registry.example/envoy:1", "penstock-gateway"
)
INSTALLED = replace(CONFIG, gateway=GATEWAY)
NAMES = {"ServiceAccount", "RoleBinding", "Deployment", "PodDisruptionBudget"}
FIRST = names.GATEWAY_PORTS[0]


@dataclass
class RoutedWorld(World):
    """A world with a gateway: its objects are apart from the pool's own children."""

    config: DecideConfig = INSTALLED
    gateway: dict[tuple[str, str], ChildObject] = field(default_factory=dict)
    listening: bool = False
    problem: str = ""
    holding: bool = False
    held_requests: int = 0
    others: tuple[RoutedPool, ...] = ()

    @override
    def view(self) -> PoolView:
        seen = GatewayView(
            dict(self.gateway), 2, self.listening, self.problem, self.holding, self.held_requests
        )
        return replace(super().view(), gateway=seen)

    @override
    def observed(self) -> Observed:
        routing = self.pool.spec.routing
        wanted = routing is not None and routing.mode == "Gateway"
        port = live_route(self.children.get(("Service", "chat"))).port
        own = RoutedPool(self.pool.uid, "team-a", self.pool.name, self.pool.created, wanted, port)
        known = (own,) if wanted or port is not None else ()
        return replace(super().observed(), routed_pools=(*self.others, *known))

    @override
    def store(self, write: ChildWrite) -> None:
        name = write.manifest["metadata"]["name"]
        if name != names.GATEWAY_NAME:
            super().store(write)
        elif write.write is Write.DELETE:
            del self.gateway[write.kind, name]
        else:
            self.gateway[write.kind, name] = shared(write.kind, write.manifest)

    @property
    def service(self) -> Mapping[str, Any]:
        return self.children["Service", "chat"].manifest


def shared(kind: str, manifest: Mapping[str, Any]) -> ChildObject:
    owners = frozenset(owner["uid"] for owner in manifest["metadata"]["ownerReferences"])
    stored = child(kind, names.GATEWAY_NAME, copy.deepcopy(dict(manifest)))
    return replace(stored, owner_uids=owners)


def begun(**changes: Any) -> RoutedWorld:
    """Return a world in which the pool has its children and one ready pod, and is to be routed."""
    world = RoutedWorld(pool=pool(routing={"mode": "Gateway"}), **changes)
    world.settle()
    world.pods = (pod("chat-1", revision=world.revision),)
    world.settle()
    return world


def test_the_first_pool_creates_the_gateway_and_announces_its_listener() -> None:
    world = begun()
    assert {kind for kind, _ in world.gateway} == NAMES
    assert world.service["metadata"]["annotations"][names.ANNOTATION_GATEWAY_PORT] == str(FIRST)
    assert world.service["spec"]["selector"] == {names.LABEL_POOL_UID: "uid-chat"}
    plan = world.settle()
    assert reason(plan, "Routed") == "False/GatewayNotReady"
    assert plan.active
    assert plan.writes == ()


def test_the_listener_has_the_pools_limits_of_a_body() -> None:
    world = begun()
    assert names.ANNOTATION_GATEWAY_BODY not in world.service["metadata"]["annotations"]
    http = {"maxBodySize": "256Mi", "bodyTimeoutSeconds": 300}
    world.pool = pool(routing={"mode": "Gateway"}, runtime={"http": http})
    world.settle()
    text = world.service["metadata"]["annotations"][names.ANNOTATION_GATEWAY_BODY]
    assert BodyLimits.from_annotation(text) == BodyLimits(256 * 2**20, 300)
    world.pool = pool(routing={"mode": "Service"}, runtime={"http": http})
    world.settle()
    assert names.ANNOTATION_GATEWAY_BODY not in world.service["metadata"].get("annotations", {})


def test_the_service_selects_the_gateway_once_it_listens() -> None:
    world = begun()
    world.listening = True
    plan = world.settle()
    assert world.service["spec"]["selector"] == {names.LABEL_GATEWAY: names.GATEWAY_NAME}
    assert world.service["spec"]["ports"][0]["targetPort"] == FIRST
    assert world.service["spec"]["ports"][0]["port"] == names.CLIENT_PORT
    plan = world.settle()
    assert reason(plan, "Routed") == "True/ThroughGateway"
    assert plan.writes == ()


def test_a_pool_is_routed_once_its_service_selects_the_gateway_and_not_before() -> None:
    """The status is written while the Service is, and the Service may be rejected."""
    world = begun()
    world.listening = True
    plan = world.run()
    assert [write.kind for write in plan.writes] == ["Service"]
    assert reason(plan, "Routed") == "False/GatewayNotReady"
    assert plan.active
    world.settle()
    assert reason(world.settle(), "Routed") == "True/ThroughGateway"


def test_a_routed_pool_stays_routed_while_a_gateway_fails_and_says_why() -> None:
    world = begun(listening=True)
    world.settle()
    world.listening, world.problem = False, "pod gateway-1: Envoy rejected its cluster: no"
    plan = world.settle()
    assert reason(plan, "Routed") == "True/GatewayDegraded"
    assert "Envoy rejected its cluster: no" in message(plan, "Routed")
    assert names.LABEL_GATEWAY in world.service["spec"]["selector"]


def test_a_pool_that_leaves_selects_its_pods_and_closes_the_listener_later() -> None:
    world = begun(listening=True)
    world.settle()
    world.edit_spec(routing={"mode": "Service"})
    plan = world.settle()
    assert reason(plan, "Routed") == "False/Leaving"
    assert world.service["spec"]["selector"] == {names.LABEL_POOL_UID: "uid-chat"}
    assert world.service["spec"]["ports"][0]["targetPort"] == names.CLIENT_PORT_NAME
    assert names.ANNOTATION_GATEWAY_PORT in world.service["metadata"]["annotations"]
    assert world.gateway, "the listener is still in use"
    world.now += LEAVING_SECONDS
    world.settle()
    assert names.ANNOTATION_GATEWAY_PORT not in world.service["metadata"]["annotations"]
    plan = world.settle()
    assert world.gateway == {}
    assert "Routed" not in [condition.type for condition in plan.status.conditions or ()]
    assert world.settle().writes == ()


def test_the_gateway_is_owned_by_every_routed_pool_and_controlled_by_none() -> None:
    other = RoutedPool("uid-other", "team-a", "other", NOW, wanted=True, port=FIRST + 1)
    world = begun(others=(other, replace(other, uid="uid-far", namespace="team-b")))
    for stored in world.gateway.values():
        owners = stored.manifest["metadata"]["ownerReferences"]
        assert [owner["name"] for owner in owners] == ["chat", "other"]
        assert not any(owner.get("controller") for owner in owners)


def test_only_the_oldest_routed_pool_of_a_namespace_writes_the_gateway() -> None:
    older = RoutedPool("uid-other", "team-a", "other", NOW - 999, wanted=True, port=FIRST)
    world = begun(others=(older,))
    assert world.gateway == {}
    assert world.service["metadata"]["annotations"][names.ANNOTATION_GATEWAY_PORT] == str(FIRST + 1)


def test_an_installation_without_a_gateway_says_so_and_leaves_the_pool_direct() -> None:
    world = begun(config=CONFIG)
    plan = world.settle()
    assert reason(plan, "Routed") == "False/GatewayUnavailable"
    assert "gateway.image.repository" in message(plan, "Routed")
    assert names.ANNOTATION_GATEWAY_PORT not in world.service["metadata"]["annotations"]
    assert world.gateway == {}


def test_the_gateway_of_an_installation_that_has_none_any_more_stays_while_pools_need_it() -> None:
    world = begun(listening=True)
    world.settle()
    world.config = CONFIG
    plan = world.settle()
    assert reason(plan, "Routed") == "False/GatewayUnavailable"
    assert world.service["spec"]["selector"] == {names.LABEL_GATEWAY: names.GATEWAY_NAME}
    assert set(world.gateway) == {(kind, names.GATEWAY_NAME) for kind in NAMES}
    world.edit_spec(routing={"mode": "Service"})
    for _ in range(3):
        world.settle()
        world.now += LEAVING_SECONDS
    assert world.gateway == {}


def test_a_role_binding_of_another_role_is_created_again() -> None:
    world = begun(listening=True)
    world.settle()
    world.config = replace(INSTALLED, gateway=replace(GATEWAY, cluster_role="other-gateway"))
    deletions = [write for write in world.run().writes if write.write is Write.DELETE]
    assert [write.kind for write in deletions] == ["RoleBinding"]
    world.settle()
    world.settle()
    binding = world.gateway["RoleBinding", names.GATEWAY_NAME].manifest
    assert binding["roleRef"]["name"] == "other-gateway"


def test_the_gateways_network_policy_goes_with_the_setting() -> None:
    world = begun(config=replace(INSTALLED, peers=PoolPeers(({"podSelector": {}},))))
    key = ("NetworkPolicy", names.GATEWAY_NAME)
    assert key in world.gateway
    world.config = INSTALLED
    world.settle()
    assert key not in world.gateway


def test_the_pods_have_the_fields_of_the_installation() -> None:
    fields = {"imagePullSecrets": [{"name": "registry"}], "priorityClassName": "high"}
    world = begun(config=replace(CONFIG, gateway=replace(GATEWAY, pod=fields)))
    template = world.gateway["Deployment", names.GATEWAY_NAME].manifest["spec"]["template"]
    assert template["spec"] | fields == template["spec"]


def test_an_object_of_another_owner_under_the_gateways_name_is_never_written() -> None:
    foreign = child("Deployment", names.GATEWAY_NAME)
    world = begun(gateway={("Deployment", names.GATEWAY_NAME): foreign})
    plan = world.settle()
    assert reason(plan, "Routed") == "False/GatewayUnavailable"
    assert "Deployment penstock-gateway exists" in message(plan, "Routed")
    assert list(world.gateway) == [("Deployment", names.GATEWAY_NAME)]


def test_a_changed_object_of_the_gateway_is_repaired() -> None:
    world = begun(listening=True)
    world.settle()
    key = ("Deployment", names.GATEWAY_NAME)
    manifest = copy.deepcopy(dict(world.gateway[key].manifest))
    manifest["spec"]["replicas"] = 9
    world.gateway[key] = replace(world.gateway[key], manifest=manifest)
    assert [(write.write, write.kind) for write in world.run().writes] == [
        (Write.APPLY, "Deployment")
    ]


def test_a_controller_has_ten_seconds_to_start_before_its_liveness_is_probed() -> None:
    """The kubelet would end it after three failed probes, six seconds after a slow start began."""
    pod = begun().gateway["Deployment", names.GATEWAY_NAME].manifest["spec"]["template"]["spec"]
    (controller,) = pod["containers"]
    assert controller["livenessProbe"]["initialDelaySeconds"] == 10


def certificates(world: RoutedWorld) -> list[Mapping[str, Any]]:
    pod = world.gateway["Deployment", names.GATEWAY_NAME].manifest["spec"]["template"]["spec"]
    (mounts,) = (container["volumeMounts"] for container in pod["containers"])
    volumes = [volume for volume in pod["volumes"] if volume["name"] == "tls"]
    assert [mount["mountPath"] for mount in mounts[1:]] == [names.TLS_FOLDER for _ in volumes]
    return [source["secret"] for volume in volumes for source in volume["projected"]["sources"]]


def test_the_gateway_mounts_the_certificate_of_each_pool_that_has_one() -> None:
    other = RoutedPool("uid-other", "team-a", "other", NOW, wanted=True, port=FIRST + 1)
    assert certificates(begun(others=(other,))) == []
    (mounted,) = certificates(begun(others=(replace(other, certificate="pair"),)))
    assert mounted["name"] == "pair"
    assert mounted["optional"] is True
    assert [item["path"] for item in mounted["items"]] == [
        "other/tls.crt",
        "other/tls.key",
        "other/ca.crt",
    ]


def test_a_network_policy_admits_clients_to_listeners_and_the_operator_to_the_status() -> None:
    operator = {"podSelector": {"matchLabels": {"app": "operator"}}}
    world = begun(config=replace(INSTALLED, peers=PoolPeers((operator,))))
    rules = world.gateway["NetworkPolicy", names.GATEWAY_NAME].manifest["spec"]["ingress"]
    assert rules[0] == {
        "ports": [{"protocol": "TCP", "port": FIRST, "endPort": names.GATEWAY_PORTS[1]}]
    }
    assert rules[1]["from"] == [operator]


@pytest.mark.parametrize("kind", sorted(NAMES))
def test_every_object_has_the_label_that_the_operator_watches(kind: str) -> None:
    metadata = begun().gateway[kind, names.GATEWAY_NAME].manifest["metadata"]
    assert metadata["labels"][names.LABEL_POOL_UID] == names.GATEWAY_UID
    assert metadata["labels"] == labels()
