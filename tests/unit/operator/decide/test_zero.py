"""A pool that goes to zero when no request comes, and back when the gateway holds one."""

from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from penstock_api import names
from penstock_api.hold import HoldLimits
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.decide.planning.planner_state import PlannerState
from penstock_operator.decide.scaling.decision import ScalingState
from penstock_operator.observed import PodSample, PoolSignals, PoolView, SignalSource
from tests.unit.operator.decide.test_gateway import INSTALLED, RoutedWorld
from tests.unit.operator.decide.world import CONFIG, message, pod, policy, pool, reason

IDLE = 60
SCALING = {"mode": "Auto", "minReplicas": 0, "scaleToZero": {"idleSeconds": IDLE}}


@dataclass
class ZeroWorld(RoutedWorld):
    """A routed world whose pods count their requests."""

    received: float = 5.0
    events: list[str] = field(default_factory=list)
    """Reasons of the events of `pass_for`."""

    @override
    def view(self) -> PoolView:
        samples = tuple(
            PodSample(item.uid, self.now, waiting=0.0, running=0.0, requests_received=self.received)
            for item in self.pods
            if item.ready
        )
        return replace(super().view(), signals=PoolSignals(SignalSource.PODS, samples))

    def pass_for(self, seconds: float) -> PoolPlan:
        """Settle every 5 s."""
        for _ in range(int(seconds // 5)):
            plan = self.settle()
            self.events += [note.reason for note in plan.events]
        return plan

    @property
    def replicas(self) -> int:
        count = self.children["Deployment", "chat-penstock"].manifest["spec"]["replicas"]
        assert isinstance(count, int)
        return count


def one_pod(**spec: Any) -> ZeroWorld:
    """Return a routed pool with one ready pod."""
    world = ZeroWorld(
        pool=pool(routing={"mode": "Gateway"}, scaling={**SCALING, **spec}), config=INSTALLED
    )
    world.settle()
    world.pods = (pod("chat-1", revision=world.revision),)
    world.listening = world.holding = True
    world.settle()
    world.settle()
    return world


def at_zero() -> ZeroWorld:
    world = one_pod()
    world.pass_for(IDLE + 10)
    world.pods = ()
    world.settle()
    assert world.replicas == 0
    return world


def test_the_gateway_is_told_to_hold_before_the_pool_can_be_at_zero() -> None:
    annotations = one_pod().service["metadata"]["annotations"]
    limits = HoldLimits.from_annotation(annotations[names.ANNOTATION_GATEWAY_HOLD])
    assert limits == HoldLimits(max_seconds=600, max_requests=1000, per_pod=128)


def test_the_last_replica_goes_after_the_idle_time() -> None:
    world = one_pod()
    world.pass_for(IDLE - 30)
    assert world.replicas == 1
    plan = world.pass_for(30)
    assert world.replicas == 0
    assert world.events == ["ScaledDown"]
    assert plan.status.last_decision is not None
    assert plan.status.last_decision.replicas_term == "Idle"


def test_a_request_prolongs_the_time() -> None:
    world = one_pod()
    world.pass_for(IDLE - 30)
    world.received += 1
    world.pass_for(IDLE - 30)
    assert world.replicas == 1
    world.pass_for(40)
    assert world.replicas == 0


def test_the_counts_of_pods_that_are_gone_are_dropped() -> None:
    world = one_pod()
    for number in range(2, 6):
        world.pods = (pod(f"chat-{number}", revision=world.revision),)
        world.settle()
    state = world.states[world.pool.uid]
    assert isinstance(state, PlannerState)
    assert isinstance(state.scaling, ScalingState)
    assert state.scaling.activity is not None
    assert set(state.scaling.activity.received) == {each.uid for each in world.pods}


def test_a_pool_stays_at_one_while_its_gateway_does_not_hold() -> None:
    world = one_pod()
    world.holding = False
    world.pass_for(3 * IDLE)
    assert world.replicas == 1


def test_a_pool_stays_at_one_while_a_pod_is_not_ready() -> None:
    world = one_pod()
    world.pods = (pod("chat-1", ready=False, revision=world.revision),)
    world.pass_for(3 * IDLE)
    assert world.replicas == 1


def test_an_installation_without_a_gateway_keeps_one_replica() -> None:
    world = one_pod()
    world.config = CONFIG
    world.pass_for(3 * IDLE)
    assert world.replicas == 1


def test_a_pool_at_zero_stays_there_and_is_ready_for_a_reason() -> None:
    world = at_zero()
    plan = world.pass_for(600)
    assert world.replicas == 0
    assert reason(plan, "Ready") == "True/IdleAtZero"
    assert "the first one starts a replica" in message(plan, "Ready")
    assert not plan.active
    assert plan.writes == ()
    world.holding = False
    assert reason(world.settle(), "Ready") == "False/GatewayNotHolding"


def test_a_held_request_starts_a_replica() -> None:
    world = at_zero()
    world.held_requests = 3
    plan = world.run()
    assert ("ScaledUp", "Replicas 0 -> 1: the gateway holds 3 requests.") in [
        (note.reason, note.message) for note in plan.events
    ]
    plan = world.settle()
    assert world.replicas == 1
    assert plan.status.scaling is not None
    assert plan.status.scaling.held_requests == 3
    world.held_requests = 0  # its client left
    world.pass_for(IDLE)
    assert world.replicas == 1, "the pod is starting"


def test_a_candidate_at_zero_starts_a_replica_when_the_pools_pods_receive_requests() -> None:
    world = one_pod()
    world.policies = (policy("prod", candidate={"bounds": {"replicas": {"max": 9}}}),)
    plan = world.pass_for(IDLE + 10)
    assert plan.status.candidate is not None
    assert plan.status.candidate.replicas == 0
    world.received += 1
    plan = world.settle()
    assert plan.status.candidate is not None
    assert (plan.status.candidate.replicas, world.replicas) == (1, 1)


def test_a_pool_that_leaves_zero_is_held_and_routed_until_a_pod_is_ready() -> None:
    world = at_zero()
    world.edit_spec(routing={"mode": "Service"}, scaling={"mode": "Auto", "minReplicas": 1})
    world.settle()
    assert world.replicas == 1
    assert names.ANNOTATION_GATEWAY_HOLD in world.service["metadata"]["annotations"]
    assert names.LABEL_GATEWAY in world.service["spec"]["selector"]
    world.pods = (pod("chat-2", revision=world.revision),)
    world.settle()
    assert names.ANNOTATION_GATEWAY_HOLD not in world.service["metadata"]["annotations"]
    assert names.LABEL_GATEWAY not in world.service["spec"]["selector"]
