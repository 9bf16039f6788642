"""Pools as a scaling decision sees them, and one that lives through ticks."""

from dataclasses import dataclass, field
from typing import Any

from penstock_api.pod_contract import CurveSums, Discipline, LimitsUpdate, Preemption
from penstock_api.types.batching import BatchingMode
from penstock_api.types.pool import PoolSpec
from penstock_api.types.scaling import ScalingAlgorithm, ScalingMode
from penstock_api.types.status import PoolStatus
from penstock_operator.decide.scaling.decision import ScalingOutcome, conclude, propose
from penstock_operator.decide.spec.effective import EffectiveSpec
from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_operator.observed import (
    Acknowledgement,
    ChildObject,
    PodObject,
    PodSample,
    PoolObject,
    PoolSignals,
    PoolView,
    SignalSource,
)
from tests.unit.operator.decide.scaling.world import SETTINGS

MODEL = {"source": {"type": "Module", "module": {"factory": "models:create"}}}


def pod(name: str, now: float, *, ready: bool = True) -> PodObject:
    """Return an old pod."""
    return PodObject(
        uid=name,
        name=name,
        ip="127.0.0.1",
        created=now - 1000,
        scheduled=True,
        unschedulable_since=None,
        ready=ready,
        ready_since=now - 900 if ready else None,
        terminating=False,
        host_network=False,
        revision=None,
        problem=None,
        restarts=0,
        scheduled_since=now - 990,
    )


def deployment(replicas: int, owner: str = "pool-uid") -> ChildObject:
    """Return the pool's Deployment."""
    manifest = {"spec": {"replicas": replicas}}
    return ChildObject(
        "Deployment", "team", "chat-penstock", "d", "1", owner, deleting=False, manifest=manifest
    )


@dataclass
class Pool:
    """A pool whose decisions are carried out at once; its pods say what the story says."""

    law: LawSettings = SETTINGS
    scaling: ScalingMode = ScalingMode.AUTO
    batching: BatchingMode = BatchingMode.AUTO
    algorithm: ScalingAlgorithm = ScalingAlgorithm.UTILIZATION_BAND
    spec_replicas: int = 1
    bound: int | None = None
    live: int | None = 1
    waiting: float = 0.0
    rows_per_second: float = 0.0
    status: PoolStatus = field(default_factory=PoolStatus)
    source: SignalSource = SignalSource.PROMETHEUS
    problem: str = ""
    ready: bool = True
    published: LimitsUpdate | None = None
    generation_seen: int | None = None
    now: float = 50_000.0
    state: Any = None
    outcomes: list[ScalingOutcome] = field(default_factory=list)

    def effective(self) -> EffectiveSpec:
        """Return the effective spec."""
        return EffectiveSpec(
            law=self.law,
            algorithm=self.algorithm,
            scaling_mode=self.scaling,
            batching_mode=self.batching,
            replicas=min(self.spec_replicas, self.bound or self.spec_replicas),
            max_queue_depth=100,
            discipline=Discipline.FIRST_IN_FIRST_OUT,
            preemption=Preemption.NEVER,
            bounded=(),
            policies=(),
            replicas_bound=self.bound,
        )

    def view(self) -> PoolView:
        """Return what decisions read."""
        spec = PoolSpec.model_validate({"replicas": self.spec_replicas, "model": MODEL})
        pods = tuple(pod(f"pod-{i}", self.now, ready=self.ready) for i in range(self.live or 0))
        generation = self.published.generation if self.published else None
        children = (
            {} if self.live is None else {("Deployment", "chat-penstock"): deployment(self.live)}
        )
        return PoolView(
            pool=PoolObject(
                "pool-uid", "team", "chat", 1, "1", {}, {}, False, spec, self.status, 0.0
            ),
            namespace_labels={},
            children=children,
            revisions=(),
            pods=pods,
            signals=PoolSignals(self.source, self._samples(pods), self.problem),
            acknowledgements={pod.uid: Acknowledgement(generation, 64) for pod in pods},
        )

    def _samples(self, pods: tuple[PodObject, ...]) -> tuple[PodSample, ...]:
        if self.source is SignalSource.NONE:
            return ()
        rows = self.rows_per_second * self.now
        sums = CurveSums(batches=rows, cost_units=rows, cost_units_squared=rows, seconds=rows / 100)
        return tuple(
            PodSample(pod.uid, self.now, waiting=self.waiting, rows_received=rows, curve=sums)
            for pod in pods
            if pod.ready
        )

    def tick(self, times: int = 1) -> ScalingOutcome:
        """Decide once every 5 s, and do what was decided."""
        for _ in range(times):
            self.now += 5
            proposal = propose(self.effective(), self.view(), self.published, self.state, self.now)
            self.state, outcome = conclude(proposal, None, self.now)
            self.outcomes.append(outcome)
            self.live = outcome.replicas
            self._publish(outcome.cap)
        return self.outcomes[-1]

    def _publish(self, cap: int) -> None:
        if self.published is None:
            self.published = LimitsUpdate(
                max_batch_size=cap,
                max_queue_depth=100,
                max_queue_delay_milliseconds=5,
                discipline=Discipline.FIRST_IN_FIRST_OUT,
                generation=1,
            )
        elif self.published.max_batch_size != cap:
            more = {"max_batch_size": cap, "generation": self.published.generation + 1}
            self.published = self.published.model_copy(update=more)

    def edit(self, **changes: Any) -> ScalingOutcome:
        """Change the spec, or the world, and tick."""
        for name, value in changes.items():
            setattr(self, name, value)
        return self.tick()

    def restart_operator(self) -> None:
        """Forget what only the operator's memory held; the status stays."""
        last = self.outcomes[-1]
        self.state = None
        self.status = replace_status(self.status, last)


def replace_status(status: PoolStatus, outcome: ScalingOutcome) -> PoolStatus:
    """Return the status as the operator would have written it."""
    return status.model_copy(
        update={
            "desired_replicas": outcome.desired_replicas,
            "last_decision": outcome.last_decision,
            "conditions": outcome.conditions,
        }
    )
