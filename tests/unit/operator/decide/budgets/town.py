"""Pools under policies, one operator that plans those that are due, and plans that come true at once."""

from dataclasses import dataclass, field, replace
from typing import Any

from penstock_operator.decide.ledger import QuotaLedger
from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planner import make_plan
from penstock_operator.observed import PodObject, PodProblem, PolicyObject
from tests.unit.operator.decide.world import CONFIG, World, failing, pod, policy, pool

GPU = "nvidia.com/gpu"


def budget(count: int, **more: object) -> PolicyObject:
    return policy("prod", gpuBudgets=[{"resourceName": GPU, "count": count}], **more)


@dataclass
class Town:
    """Pools by name, and one operator that plans those that are due; every plan comes true."""

    policies: tuple[PolicyObject, ...]
    worlds: dict[str, World] = field(default_factory=dict)
    ledger: QuotaLedger = field(default_factory=QuotaLedger)
    plan: Plan | None = None

    def add(self, name: str, **spec: object) -> None:
        self.worlds[name] = World(pool=pool(name, f"uid-{name}", **spec))

    def go(self, *due: str) -> dict[str, PoolPlan]:
        """Plan the pools of `due` (all, if none is named), and do what is planned but run no pod."""
        worlds = [self.worlds[name] for name in due or self.worlds]
        now = max(world.now for world in self.worlds.values())
        whole = worlds[0].observed()
        observed = replace(
            whole,
            pools=tuple(world.view() for world in worlds),
            policies=self.policies,
            all_pools=tuple(world.observed().all_pools[0] for world in self.worlds.values()),
        )
        states = {uid: one for world in worlds for uid, one in world.states.items()}
        self.plan = make_plan(observed, states, CONFIG, now, self.ledger)
        assert not self.plan.failures
        self.ledger = self.plan.ledger
        plans = {one.name: one for one in self.plan.pools}
        for world in worlds:
            mine = plans[world.pool.name]
            world.states[world.pool.uid] = mine.law_state
            for write in mine.writes:
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
        """Let every Deployment have the pods it asks for, Ready."""
        for name, world in self.worlds.items():
            wanted = self.replicas()[name]
            world.pods = tuple(
                pod(f"{name}-{number}", revision=world.revision) for number in range(wanted)
            )


def town(count: int, **replicas: int) -> Town:
    made = Town((budget(count),))
    for name, number in replicas.items():
        made.add(name, replicas=number)
    made.go()
    made.run_pods()
    made.go()
    return made


def delete_and_wait(made: Town) -> None:
    """Delete pool a, of two that share 4 devices: b has them all once those of a must have drained, no sooner."""
    del made.worlds["a"]
    made.go()
    assert made.replicas() == {"b": 2}
    made.worlds["b"].now += 160
    made.go()
    assert made.replicas() == {"b": 4}


def waiting(name: str, since: float, text: str) -> PodObject:
    return replace(
        failing(name, "Unschedulable", text),
        scheduled=False,
        unschedulable_since=since,
        problem=PodProblem("Unschedulable", text),
    )


def step(made: Town, name: str) -> Any:
    """Return by how many pods the pool's Deployment goes above and below its count in a rollout."""
    return made.worlds[name].deployment["spec"]["strategy"]["rollingUpdate"]
