"""A pool with variants and the pools of its variants on fake time: the effects of the API server on its plans."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_api.conditions import Condition, condition
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.observed import (
    BatchLoad,
    ChildObject,
    Observed,
    PolicyObject,
    PoolObject,
    PoolView,
    Rejection,
    VariantView,
)
from penstock_operator.variants import VariantFigures, VariantLoad, VariantOwner
from tests.unit.operator.decide.world import CONFIG, NO_SIGNALS, NOW, child, pool

FAST: Mapping[str, Any] = {"name": "fast", "accelerator": {"count": 1}}
SLOW: Mapping[str, Any] = {"name": "slow", "accelerator": {"count": 0}}
OBJECTIVE = [{"metric": "RequestLatency", "milliseconds": 500}]


@dataclass
class ParentWorld:
    """One pool with variants; `run` makes a pass, `settle` also applies its writes and makes every pod Ready."""

    pool: PoolObject
    pools: dict[str, PoolObject] = field(default_factory=dict)
    """Pools of variants by name."""
    figures: dict[str, VariantFigures] = field(default_factory=dict)
    """By name of the pool."""
    children: dict[tuple[str, str], ChildObject] = field(default_factory=dict)
    rejections: tuple[Rejection, ...] = ()
    batches: tuple[BatchLoad, ...] | None = None
    policies: tuple[PolicyObject, ...] = ()
    state: object | None = None
    now: float = NOW

    def view(self) -> PoolView:
        return PoolView(
            pool=self.pool,
            namespace_labels={},
            children=dict(self.children),
            revisions=(),
            pods=(),
            signals=NO_SIGNALS,
            acknowledgements={},
            rejections=self.rejections,
            batches=self.batches,
            variants=tuple(
                VariantView(each, self.figures.get(name, VariantFigures()))
                for name, each in sorted(self.pools.items())
            ),
        )

    def run(self) -> PoolPlan:
        observed = Observed(
            pools=(self.view(),),
            policies=self.policies,
            policies_readable=True,
            lease_transitions={},
            control_keys={},
        )
        states = {} if self.state is None else {self.pool.uid: self.state}
        plan = make_plan(observed, states, CONFIG, self.now)
        for failure in plan.failures:
            raise failure.error
        self.state = plan.pools[0].law_state
        return plan.pools[0]

    def settle(self, *, ready: bool = True) -> PoolPlan:
        plan = self.run()
        for write in plan.writes:
            self.store(write)
        if ready:
            self.make_ready()
        self.pool = replace(self.pool, status=plan.status)
        self.now += 5
        return plan

    def store(self, write: ChildWrite) -> None:
        meta = write.manifest["metadata"]
        if write.kind != "InferencePool":
            self.children[write.kind, meta["name"]] = child(
                write.kind, meta["name"], dict(write.manifest), self.pool.uid
            )
        elif write.write is Write.DELETE:
            del self.pools[meta["name"]]
        else:
            before = self.pools.get(meta["name"])
            self.pools[meta["name"]] = PoolObject(
                uid=f"uid-{meta['name']}",
                namespace=meta["namespace"],
                name=meta["name"],
                generation=1 if before is None else before.generation + 1,
                resource_version="1",
                labels=meta["labels"],
                annotations=meta["annotations"],
                deleting=False,
                spec=PoolSpec.model_validate(write.manifest["spec"]),
                status=PoolStatus() if before is None else before.status,
                created=self.now,
                variant_of=VariantOwner(self.pool.uid, self.pool.name),
            )

    def make_ready(self, *given: str) -> None:
        """Make every requested pod of these pools Ready; of all without names."""
        for name in given or tuple(self.pools):
            each = self.pools[name]
            count = each.spec.replicas
            status = PoolStatus(
                observed_generation=each.generation,
                replicas=count,
                ready_replicas=count,
                conditions=(
                    ready_condition(count),
                    condition("Progressing", status=False, reason="Settled"),
                ),
            )
            self.pools[name] = replace(each, status=status)

    def counts(self) -> dict[str, int]:
        """Return the replicas of the variants' pools."""
        return {name: each.spec.replicas for name, each in sorted(self.pools.items())}


def ready_condition(count: int) -> Condition:
    return condition("Ready", bool(count), "AllReplicasReady" if count else "ScaledToZero")


def parent(*variants: Mapping[str, Any], **spec: Any) -> ParentWorld:
    """Return a world with a pool `chat` of these variants, of a fast and a slow one without any."""
    return ParentWorld(pool(variants=list(variants or (FAST, SLOW)), **spec))


def condition_of(plan: PoolPlan, kind: str) -> Condition:
    return next(item for item in plan.status.conditions or () if item.type == kind)


def automatic(**scaling: Any) -> ParentWorld:
    return parent(objectives=OBJECTIVE, scaling={"mode": "Auto", "maxReplicas": 8, **scaling})


def load_of(need: float) -> VariantLoad:
    """Return the load of pods for which the user's own targets require a capacity, in rows a second."""
    return VariantLoad(0.0, 0.0, 0.0, guarded=need)


def measured(world: ParentWorld, fast: float, slow: float, need: float) -> None:
    """Let both variants be measured, and the fast one have all of the need."""
    world.figures = {
        "chat-fast": VariantFigures(fast, load_of(need), 4.0, 20.0),
        "chat-slow": VariantFigures(slow, load_of(0), 1.0, 20.0),
    }
