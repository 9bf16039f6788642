"""The NetworkPolicy of a pool, with the sources that the administrator sets."""

from dataclasses import replace
from typing import Any

from penstock_operator.decide.actions import Write
from penstock_operator.decide.config import PoolPeers
from tests.unit.operator.decide.world import CONFIG, World, child

OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "penstock-system"}}
}
PEERS = PoolPeers(cluster=(OPERATOR,))
GUARDED = replace(CONFIG, peers=PEERS)
KEY = ("NetworkPolicy", "chat-penstock")


def settled(config: Any = GUARDED) -> World:
    world = World(config=config)
    world.settle()
    return world


def test_the_cluster_port_admits_the_operator_and_the_client_port_every_source() -> None:
    spec = settled().children[KEY].manifest["spec"]
    clients, cluster = spec["ingress"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["podSelector"] == {"matchLabels": {"penstock.dev/pool-uid": "uid-chat"}}
    assert clients == {"ports": [{"protocol": "TCP", "port": "http"}]}
    assert cluster == {"ports": [{"protocol": "TCP", "port": "control"}], "from": [OPERATOR]}


def test_clients_can_be_restricted_too() -> None:
    some = {"podSelector": {"matchLabels": {"app": "gateway"}}}
    world = settled(replace(CONFIG, peers=PoolPeers((OPERATOR,), (some,))))
    own = {"podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "penstock"}}}
    assert world.children[KEY].manifest["spec"]["ingress"][0]["from"] == [some, own]


def test_there_is_none_unless_the_administrator_sets_sources() -> None:
    assert KEY not in settled(CONFIG).children


def test_it_is_deleted_when_the_administrator_removes_the_sources() -> None:
    world = settled()
    world.config = CONFIG
    (write,) = world.run().writes
    assert (write.write, write.kind) == (Write.DELETE, "NetworkPolicy")


def test_it_is_written_only_when_sources_change() -> None:
    world = settled()
    assert world.run().writes == ()
    world.config = replace(CONFIG, peers=PoolPeers((OPERATOR, {"podSelector": {}})))
    (write,) = world.run().writes
    assert (write.write, write.kind) == (Write.APPLY, "NetworkPolicy")


def test_a_foreign_network_policy_conflicts_only_where_one_is_desired() -> None:
    stranger = {KEY: child(*KEY)}
    taken = World(config=GUARDED, children=dict(stranger)).run()
    assert "NetworkPolicy" in str(taken.status.conditions)
    assert "NameConflict" in str(taken.status.conditions)
    free = World(children=dict(stranger)).run()
    assert "NameConflict" not in str(free.status.conditions)
    assert Write.DELETE not in {write.write for write in free.writes}
