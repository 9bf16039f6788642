"""A pool with its cluster on fake time: the effects of an API server and a kubelet on a plan, as plain values."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from penstock_api import names
from penstock_api.pod_contract import LimitsUpdate
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.actions import ChildWrite, Write
from penstock_operator.decide.config import DecideConfig
from penstock_operator.decide.plan import Plan, PoolPlan
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.decide.spec.effective import EffectiveSpec, effective
from penstock_operator.decide.spec.live_fields import Fields
from penstock_operator.observed import (
    Acknowledgement,
    BatchLoad,
    ChildObject,
    Observed,
    PodObject,
    PodProblem,
    PolicyObject,
    PoolLabels,
    PoolObject,
    PoolSignals,
    PoolView,
    Rejection,
    SignalSource,
    UnreadablePolicy,
)
from penstock_operator.schema_skew import AS_BUILT, SchemaSkew

Known = TypeVar("Known")
CONFIG = DecideConfig(default_runtime_image="registry.example/penstock-runtime:1")
NOW = 1_800_000_000.0
MODULE = {"source": {"type": "Module", "module": {"factory": "models:create"}}}


def pool_spec(**spec: Any) -> PoolSpec:
    """Return a spec from its JSON fields; the model is a module by default."""
    return PoolSpec.model_validate({"model": MODULE, **spec})


def pool(name: str = "chat", uid: str = "uid-chat", **spec: Any) -> PoolObject:
    return PoolObject(
        uid=uid,
        namespace="team-a",
        name=name,
        generation=1,
        resource_version="1",
        labels={},
        annotations={},
        deleting=False,
        spec=pool_spec(**spec),
        status=PoolStatus(),
        created=NOW - 60,
    )


def policy(name: str, **spec: Any) -> PolicyObject:
    return PolicyObject(
        uid=f"uid-{name}",
        name=name,
        generation=1,
        spec=PolicySpec.model_validate(spec),
        status=PolicyStatus(),
    )


def of(
    pool_: PoolObject,
    *policies: PolicyObject,
    labels: dict[str, str] | None = None,
    previous: Fields | None = None,
) -> EffectiveSpec:
    """Return the effective spec of a pool under these policies."""
    return effective(pool_, labels or {}, policies, previous)


def child(
    kind: str, name: str, manifest: Mapping[str, Any] | None = None, owner: str | None = None
) -> ChildObject:
    return ChildObject(
        kind=kind,
        namespace="team-a",
        name=name,
        uid=f"uid-{kind}-{name}",
        resource_version="7",
        controller_uid=owner,
        deleting=False,
        manifest=manifest or {"metadata": {"name": name}, "spec": {}},
    )


def pod(name: str, *, ready: bool = True, **changes: Any) -> PodObject:
    plain = PodObject(
        uid=f"uid-{name}",
        name=name,
        ip="10.0.0.1",
        created=NOW - 30,
        scheduled=True,
        unschedulable_since=None,
        ready=ready,
        ready_since=NOW - 10 if ready else None,
        terminating=False,
        host_network=False,
        revision=None,
        problem=None,
        restarts=0,
    )
    return replace(plain, **changes)


def failing(name: str, reason: str, message: str = "", **changes: Any) -> PodObject:
    return pod(name, ready=False, problem=PodProblem(reason, message), **changes)


NO_SIGNALS = PoolSignals(source=SignalSource.NONE, problem="no source was queried")


@dataclass
class World:
    """One pool and its cluster; `run` makes a pass, `settle` also applies its plan."""

    pool: PoolObject = field(default_factory=pool)
    policies: tuple[PolicyObject, ...] = ()
    policies_readable: bool = True
    unreadable_policies: tuple[UnreadablePolicy, ...] = ()
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    children: dict[tuple[str, str], ChildObject] = field(default_factory=dict)
    revisions: list[ChildObject] = field(default_factory=list)
    pods: tuple[PodObject, ...] = ()
    signals: PoolSignals = NO_SIGNALS
    acknowledgements: dict[str, Acknowledgement] = field(default_factory=dict)
    rejections: tuple[Rejection, ...] = ()
    config: DecideConfig = CONFIG
    kept: str | None = None
    """Rollback record in the operator's namespace."""
    lease_transitions: int = 0
    batches: tuple[BatchLoad, ...] | None = None
    pool_schema: SchemaSkew = AS_BUILT
    states: dict[str, object] = field(default_factory=dict)
    now: float = NOW
    version: int = 100

    def view(self) -> PoolView:
        return PoolView(
            pool=self.pool,
            namespace_labels=self.namespace_labels,
            children=dict(self.children),
            revisions=tuple(self.revisions),
            pods=self.pods,
            signals=self.signals,
            acknowledgements=dict(self.acknowledgements),
            rejections=self.rejections,
            settings_record=self.kept,
            batches=self.batches,
        )

    def observed(self) -> Observed:
        labels = PoolLabels(
            self.pool.uid, self.pool.namespace, self.namespace_labels, self.pool.labels
        )
        return Observed(
            pools=(self.view(),),
            policies=self.policies,
            policies_readable=self.policies_readable,
            unreadable_policies=self.unreadable_policies,
            lease_transitions={self.pool.namespace: self.lease_transitions},
            control_keys={"k1": "AAAA"},
            all_pools=(labels,),
            pool_schema=self.pool_schema,
        )

    def whole_plan(self) -> Plan:
        return make_plan(self.observed(), self.states, self.config, self.now)

    def limits(self) -> LimitsUpdate:
        """Run a pass and return the limits it publishes."""
        return known(self.run().limits)

    def run(self) -> PoolPlan:
        """Return the pool's plan and keep its state; a failure to plan raises."""
        whole = self.whole_plan()
        for failure in whole.failures:
            raise failure.error
        self.states[self.pool.uid] = whole.pools[0].law_state
        return whole.pools[0]

    def settle(self) -> PoolPlan:
        """Run a pass and apply its plan, the pods' acknowledgements included."""
        plan = self.run()
        for write in plan.writes:
            self.store(write)
        for push in plan.pushes:
            self.acknowledgements[push.pod_uid] = Acknowledgement(push.update.generation, 64)
        self.pool = replace(self.pool, status=plan.status)
        self.now += 5
        return plan

    def store(self, write: ChildWrite) -> None:
        name = write.manifest["metadata"]["name"]
        if write.kind == "ControllerRevision":
            self.revisions = [revision for revision in self.revisions if revision.name != name]
            if write.write is not Write.DELETE:
                self.revisions.append(self._stored(write, name))
        elif write.write is Write.DELETE:
            del self.children[write.kind, name]
        else:
            self.children[write.kind, name] = self._stored(write, name)

    def _stored(self, write: ChildWrite, name: str) -> ChildObject:
        self.version += 1
        stored = child(write.kind, name, copy.deepcopy(dict(write.manifest)), self.pool.uid)
        return replace(stored, resource_version=str(self.version))

    def edit(self, kind: str, name: str, path: str, value: Any) -> None:
        """Let another writer change one field of a child, such as `spec.replicas`."""
        live = self.children[kind, name]
        manifest = copy.deepcopy(dict(live.manifest))
        *parents, last = path.split(".")
        at = manifest
        for key in parents:
            at = at[key]
        at[last] = value
        self.version += 1
        changed = replace(live, manifest=manifest, resource_version=str(self.version))
        self.children[kind, name] = changed

    def edit_spec(self, **spec: Any) -> None:
        given = self.pool.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        edited = PoolSpec.model_validate({**given, **spec})
        self.pool = replace(self.pool, spec=edited, generation=self.pool.generation + 1)

    def annotate(self, key: str, value: str) -> None:
        self.pool = replace(self.pool, annotations={**self.pool.annotations, key: value})

    @property
    def deployment(self) -> Mapping[str, Any]:
        return self.children["Deployment", f"{self.pool.name}-penstock"].manifest

    @property
    def template(self) -> Mapping[str, Any]:
        template: Mapping[str, Any] = self.deployment["spec"]["template"]
        return template

    @property
    def revision(self) -> str:
        return str(self.template["metadata"]["labels"][names.LABEL_REVISION])


def known(value: Known | None) -> Known:
    """Return a value that a test expects to exist."""
    assert value is not None
    return value


def settled(**changes: Any) -> World:
    """Return a world whose pool has all its children, and `spec.replicas` ready pods with acknowledged limits."""
    world = World(**changes)
    world.settle()
    wanted = world.deployment["spec"]["replicas"]
    world.pods = tuple(
        pod(f"chat-{number}", ip=f"10.0.0.{number}", revision=world.revision)
        for number in range(1, wanted + 1)
    )
    world.settle()
    world.settle()
    return world


def reason(plan: PoolPlan, type: str) -> str:
    """Return `Status/Reason` of one of the plan's conditions."""
    by_type = {
        condition.type: f"{condition.status}/{condition.reason}"
        for condition in plan.status.conditions or ()
    }
    return by_type[type]


def message(plan: PoolPlan, type: str) -> str:
    return next(
        condition.message for condition in plan.status.conditions or () if condition.type == type
    )


def written(plan: PoolPlan) -> list[tuple[str, str, str]]:
    """Return (write, kind, name) of everything a plan writes."""
    return [
        (write.write.value, write.kind, write.manifest["metadata"]["name"]) for write in plan.writes
    ]
