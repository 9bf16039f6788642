"""A pod that never becomes Ready holds scale-down for a bounded time."""

from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import STUCK_SECONDS
from penstock_operator.decide.scaling.capacity_at_objective.replicas import MIN_HOLD_SECONDS
from penstock_operator.observed import PodProblem, PodSample, PoolSignals, SignalSource
from tests.bench.decide.fleet import TICK, signals
from tests.unit.operator.decide.test_checkpoint import working
from tests.unit.operator.decide.world import NOW, World, known, pod


def little(world: World) -> PoolSignals:
    """The curves of `signals`, and a request a second on each Ready pod."""
    whole = signals(0, world, world.now)
    samples = tuple(_calm(one) for one in _of_ready(world, whole))
    return PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=world.now)


def _of_ready(world: World, told: PoolSignals) -> tuple[PodSample, ...]:
    ready = {one.uid for one in world.pods if one.ready}
    return tuple(one for one in told.samples if one.uid in ready)


def _calm(one: PodSample) -> PodSample:
    passed = one.time - NOW + 600
    return replace(one, waiting=0.0, rows_received=passed, requests_received=passed)


def seconds_until_lower(problem: PodProblem | None) -> float:
    """Return for how long replicas are held that a load asked for which ended 100 s after their pods began to load for ever."""
    world, began = working(), NOW + 20
    world.now = began
    world.pods += tuple(
        pod(f"chat-{one}", ip=f"10.0.0.{one}", ready=False, created=began, revision=world.revision,
            scheduled_since=began, problem=problem)
        for one in range(4, 10)
    )  # fmt: skip
    while world.now < began + 100:
        whole = signals(0, world, world.now)
        world.signals = replace(whole, samples=_of_ready(world, whole))
        high = known(world.settle().status.desired_replicas)
    while world.now < began + 100 + 2400:
        world.signals = little(world)
        if known(world.settle().status.desired_replicas) < high:
            break
    return world.now - began


def test_a_pod_that_loads_for_ever_holds_no_replica_for_half_an_hour() -> None:
    held = seconds_until_lower(None)
    assert 100 + MIN_HOLD_SECONDS < held <= STUCK_SECONDS + 6 * TICK


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ModelLoadFailed", "ImagePullBackOff"])
def test_a_pod_that_fails_holds_no_replica_beyond_a_usual_hold(reason: str) -> None:
    held = seconds_until_lower(PodProblem(reason, "it ended"))
    assert held <= 100 + MIN_HOLD_SECONDS + 6 * TICK
