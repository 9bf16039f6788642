"""A pool whose control law raises keeps its count and its cap, reports it, and recovers by itself."""

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from penstock_api.types.scaling import ScalingAlgorithm
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.decide.planning.planner_state import PlannerState
from penstock_operator.decide.scaling.capacity_at_objective.law import CapacityAtObjective
from penstock_operator.decide.scaling.capacity_at_objective.state import CapacityState
from penstock_operator.decide.scaling.decision import LAWS, ScalingState
from penstock_operator.decide.scaling.guard import RETRIES
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.observed import PodSample, PoolSignals, SignalSource
from penstock_operator.reconcile_state import PoolState
from penstock_operator.reconciler import reporter
from penstock_operator.telemetry import metrics
from tests.bench.decide.fleet import SPEC, Fleet, signals
from tests.unit.operator.decide.scaling.test_checkpoint import law_state, ticks, working
from tests.unit.operator.decide.world import NOW, World, known, message, pod, policy, pool, reason

LAW = ScalingAlgorithm.CAPACITY_AT_OBJECTIVE
Rejects = Callable[[CapacityState, LawInput], bool]


def divided(numerator: float, denominator: float) -> float:
    return numerator / denominator


@dataclass
class Fragile(CapacityAtObjective):
    """The second law, with a defect that some states and inputs meet."""

    rejects: Rejects

    def step(
        self, state: CapacityState, observed: LawInput, now: float
    ) -> tuple[CapacityState, Decision]:
        divided(1.0, 0.0 if self.rejects(state, observed) else 1.0)
        return super().step(state, observed, now)


def fragile(monkeypatch: pytest.MonkeyPatch, rejects: Rejects) -> None:
    monkeypatch.setitem(LAWS, LAW, Fragile(rejects))


def scaling_of(world: World) -> ScalingState:
    state = world.states[world.pool.uid]
    assert isinstance(state, PlannerState)
    assert isinstance(state.scaling, ScalingState)
    return state.scaling


def damage(world: World) -> None:
    """Put a level into the law's memory that no demand has."""
    state = world.states[world.pool.uid]
    assert isinstance(state, PlannerState)
    law = law_state(world)
    damaged = law._replace(forecaster=law.forecaster._replace(level=-1.0))
    world.states[world.pool.uid] = state._replace(scaling=scaling_of(world)._replace(law=damaged))


def damaged(state: CapacityState, _: LawInput) -> bool:
    return state.forecaster.level < 0


def test_count_and_cap_stay_and_a_condition_and_one_event_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = working()
    before = ticks(world, 30)[-1]
    fragile(monkeypatch, lambda _, __: True)
    plans = ticks(world, 4)
    for plan in plans:
        assert plan.status.desired_replicas == before.status.desired_replicas
        assert known(plan.limits).max_batch_size == known(before.limits).max_batch_size
        assert reason(plan, "Scaling") == "False/LawFailed"
        assert reason(plan, "MetricsAvailable") == "True/FromPrometheus"
        assert known(plan.status.scaling).replicas_term == "LawFailed"
        assert plan.active, "tried again at the fast tick"
    assert "ZeroDivisionError: float division by zero" in message(plans[0], "Scaling")
    reasons = [[note.reason for note in plan.events] for plan in plans]
    assert reasons == [["LawFailed"], [], [], []]
    assert reason(plans[-1], "Ready") == reason(before, "Ready")


def test_bounds_hold_while_the_law_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    world = working()
    ticks(world, 30)
    fragile(monkeypatch, lambda _, __: True)
    scaling = {"mode": "Auto", "algorithm": LAW.value}
    world.edit_spec(scaling={**scaling, "minReplicas": 7, "maxReplicas": 12})
    assert ticks(world, 1)[0].status.desired_replicas == 7
    world.edit_spec(scaling={**scaling, "minReplicas": 1, "maxReplicas": 2})
    assert ticks(world, 1)[0].status.desired_replicas == 2


def test_other_pools_are_not_affected(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet, whole = Fleet.of(3), Fleet.of(3)
    for each in (fleet, whole):
        for _ in range(20):
            each.settle(each.decide(each.observed()))
    uid = fleet.worlds[1].pods[0].uid
    observed = fleet.observed()
    fragile(monkeypatch, lambda _, seen: any(pod.uid == uid for pod in seen.pods))
    plan, other = fleet.decide(observed), whole.decide(whole.observed())
    assert plan.failures == ()
    assert [reason(pool_plan, "Scaling") for pool_plan in plan.pools] == [
        "True/Acting",
        "False/LawFailed",
        "True/Acting",
    ]
    for index in (0, 2):
        assert plan.pools[index].status == other.pools[index].status


def test_the_law_continues_with_the_samples_of_failed_ticks_after_the_cause_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, bears = working(), [True]
    ticks(world, 30)
    fragile(monkeypatch, lambda _, __: not bears[0])
    bears[0] = False
    ticks(world, RETRIES - 1)
    seen = law_state(world)
    newest = max(window[-1].time for window in seen.history.windows.pods.values())
    assert newest == world.now - 5, "samples of failed ticks are in its memory"
    bears[0] = True
    plan = ticks(world, 1)[0]
    assert reason(plan, "Scaling") == "True/Acting"
    assert (
        len(law_state(world).forecaster.pending) + len(law_state(world).forecaster.errors.latest)
        > 15
    )
    assert law_state(world).counting.begun >= NOW + 30 * 5, "no hold spans what was not seen"
    assert scaling_of(world).failures == 0


def test_a_damaged_memory_is_replaced_by_the_checkpoint_after_a_few_failures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = working()
    ticks(world, 60)
    level = law_state(world).forecaster.level
    fragile(monkeypatch, damaged)
    damage(world)
    plans = ticks(world, RETRIES + 1)
    assert [reason(plan, "Scaling") for plan in plans] == [
        *["False/LawFailed"] * RETRIES,
        "True/Acting",
    ]
    assert law_state(world).forecaster.level == pytest.approx(level, rel=0.5)
    assert law_state(world).startup.served, "it is the law's own memory again"


def test_a_checkpoint_that_makes_the_law_fail_is_discarded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = working()
    ticks(world, 60)
    price = known(law_state(world).lateness.lateness_price)
    fragile(
        monkeypatch,
        lambda state, _: state.lateness.lateness_price != 40.0 and bool(state.curves.gone),
    )
    name = ("ConfigMap", "chat-penstock-memory")
    data = json.loads(world.children[name].manifest["data"]["memory.json"])
    assert data["data"]["curve"]
    assert price != 40.0
    world.states.clear()
    plans = ticks(world, 2 * RETRIES + 1)
    assert [reason(plan, "Scaling") for plan in plans] == [
        *["False/LawFailed"] * 2 * RETRIES,
        "True/Acting",
    ]


def test_a_candidate_that_fails_leaves_the_pool_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    fragile(monkeypatch, lambda _, seen: seen.settings.min_replicas == 4)
    world = working()
    candidate = {"defaults": {"scaling": {"minReplicas": 4}}}
    world.policies = (policy("prod", candidate=candidate),)
    plan = ticks(world, 3)[-1]
    assert reason(plan, "Scaling") == "True/Acting"
    assert known(plan.status.candidate).replicas_term == "LawFailed"


def test_each_failure_is_counted_and_each_defect_logged_once_with_what_reproduces_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def counted() -> float:
        labels = {"reason": "LawFailed"}
        value = metrics.OWN.get_sample_value("penstock_operator_pool_failures_total", labels)
        return value or 0.0

    world, memory = working(), PoolState()
    fragile(monkeypatch, lambda _, __: True)
    before = counted()
    with caplog.at_level(logging.ERROR):
        for plan in ticks(world, 5):
            reporter.report_decision(plan, world.view(), memory)
    assert counted() - before == 5
    (line,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert "team-a/chat: the control law failed" in line.message
    report = line.__dict__["penstock"]["failure"]
    assert report["replicas"] == 3
    assert report["readyPods"] == 3
    assert "objective_milliseconds=1000" in report["settings"]
    assert "divided:" in report["calls"][-1]
    assert "(numerator=1.0, denominator=0.0)" in report["calls"][-1]
    assert len(json.dumps(report)) < 8192


def skewed(pods: int) -> World:
    """A pool whose pods are all Ready, of which one has nearly all the traffic."""
    scaling = {**SPEC["scaling"], "minReplicas": pods, "maxReplicas": 2 * pods}
    world = World(pool=pool(**{**SPEC, "replicas": pods, "scaling": scaling}))
    world.settle()
    world.pods = tuple(
        pod(f"chat-{number}", ip=f"10.0.{number // 250}.{number % 250}", created=NOW - 600,
            revision=world.revision)
        for number in range(pods)
    )  # fmt: skip
    world.settle()
    return world


def on_one_pod(world: World) -> PoolSignals:
    """The load of `signals` on the first pod and none on the others, without latency histograms."""
    whole = signals(0, world, world.now)
    first = world.pods[0].uid
    samples = tuple(
        replace(sample, requests_settled=None, request_duration_buckets=())
        if sample.uid == first
        else PodSample(sample.uid, sample.time, 0.0, 0.0, 0.0, 0.0)
        for sample in whole.samples
    )
    return PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=world.now)


def test_a_pool_of_which_one_pod_has_all_the_traffic_is_decided_on() -> None:
    world, unevenness = skewed(130), 0.0
    for _ in range(8):
        world.signals = on_one_pod(world)
        plan = make_plan(world.observed(), world.states, world.config, world.now)
        assert [str(failure.error) for failure in plan.failures] == []
        world.settle()
        unevenness = max(unevenness, 130 * law_state(world).unevenness)
        assert reason(plan.pools[0], "Scaling") != "False/LawFailed"
    assert unevenness > 110
    assert reason(plan.pools[0], "Scaling") == "True/Acting"
