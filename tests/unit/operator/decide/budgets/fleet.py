"""A fleet of pools under policies, with an operator whose plans take effect at once."""

from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.deleted_pool import DeletedPool
from penstock_operator.observed import PodObject, PodProblem, PolicyObject
from tests.unit.operator.decide.world import CONFIG, World, failing, pod, policy, pool

GPU = "nvidia.com/gpu"
SURGING, REPLACING = {"maxSurge": 1, "maxUnavailable": 0}, {"maxSurge": 0, "maxUnavailable": 1}
TEMPLATE = {"labels": {"v": "2"}}


def budget(count: int, **more: object) -> PolicyObject:
    return policy("prod", gpuBudgets=[{"resourceName": GPU, "count": count}], **more)


@dataclass
class Fleet:
    """Pools by name and one operator; the writes of every plan take effect, unless the pool has a rejection."""

    policies: tuple[PolicyObject, ...]
    worlds: dict[str, World] = field(default_factory=dict)
    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    plan: Plan | None = None
    unreadable: set[str] = field(default_factory=set)
    """Names of pools that exist and are not planned."""
    deleted: dict[str, DeletedPool] = field(default_factory=dict)
    """What deleted pools left, by their names."""

    def add(self, name: str, **spec: object) -> None:
        self.worlds[name] = World(pool=pool(name, f"uid-{name}", **spec))

    def delete(self, name: str) -> None:
        """Delete a pool; its workload and its pods stay."""
        world = self.worlds.pop(name)
        labels = world.observed().all_pools[0]
        devices = {GPU: sum(pod.scheduled for pod in world.pods)}
        replicas = int(world.deployment["spec"]["replicas"])
        self.deleted[name] = DeletedPool(
            labels.uid, labels.labels, labels.namespace_labels, devices, replicas
        )

    def leave(self, name: str, devices: int, replicas: int = 0) -> None:
        """Change what a deleted pool left."""
        self.deleted[name] = replace(self.deleted[name], devices={GPU: devices}, replicas=replicas)

    def run(self, *due: str) -> dict[str, PoolPlan]:
        """Plan the pools of `due` (all by default) and apply the writes; pods do not change."""
        worlds = [self.worlds[name] for name in due or self.worlds if name not in self.unreadable]
        now = max(world.now for world in self.worlds.values())
        whole = worlds[0].observed()
        observed = replace(
            whole,
            pools=tuple(world.view() for world in worlds),
            policies=self.policies,
            all_pools=tuple(world.observed().all_pools[0] for world in self.worlds.values()),
            deleted_pools=tuple(self.deleted.values()),
            unreadable_pools=frozenset(self.worlds[name].pool.uid for name in self.unreadable),
        )
        states = {uid: item for world in worlds for uid, item in world.states.items()}
        self.plan = make_plan(observed, states, CONFIG, now, self.ledger)
        assert not self.plan.failures
        self.ledger = self.plan.ledger
        plans = {pool_plan.name: pool_plan for pool_plan in self.plan.pools}
        for world in worlds:
            mine = plans[world.pool.name]
            world.states[world.pool.uid] = mine.law_state
            for write in () if world.rejections else mine.writes:
                world.store(write)
            world.pool = replace(world.pool, status=mine.status)
        for world in self.worlds.values():
            world.now = now + 5
        return plans

    def replicas(self) -> dict[str, int]:
        return {
            name: int(world.deployment["spec"]["replicas"]) for name, world in self.worlds.items()
        }

    def run_pods(self) -> None:
        """Give every Deployment its replicas as Ready pods."""
        for name, world in self.worlds.items():
            wanted = self.replicas()[name]
            world.pods = tuple(
                pod(f"{name}-{number}", revision=world.revision) for number in range(wanted)
            )


def fleet_of(count: int, **replicas: int) -> Fleet:
    fleet = Fleet((budget(count),))
    for name, number in replicas.items():
        fleet.add(name, replicas=number)
    fleet.run()
    fleet.run_pods()
    fleet.run()
    return fleet


def delete_and_end_pods(fleet: Fleet) -> None:
    """Delete pool a of two that share 4 devices: b gets each device once its pod has ended, however long that takes."""
    fleet.delete("a")
    fleet.run()
    for pods in (2, 1, 0):
        fleet.leave("a", pods)
        for _ in range(3):
            fleet.run()
            fleet.worlds["b"].now += 200
        assert fleet.replicas() == {"b": 4 - pods}
    del fleet.deleted["a"]
    fleet.run()
    assert set(fleet.ledger.requests) == {"uid-b"}


def waiting(name: str, since: float, text: str) -> PodObject:
    return replace(
        failing(name, "Unschedulable", text),
        scheduled=False,
        unschedulable_since=since,
        problem=PodProblem("Unschedulable", text),
    )


def is_paused(fleet: Fleet, name: str) -> bool:
    return bool(fleet.worlds[name].deployment["spec"].get("paused"))


def step(fleet: Fleet, name: str) -> Any:
    """Return `rollingUpdate` of the pool's Deployment."""
    return fleet.worlds[name].deployment["spec"]["strategy"]["rollingUpdate"]
