"""A pod that never becomes Ready delays scale-down for a bounded time."""

from dataclasses import replace

import pytest

from penstock_operator.decide.scaling.capacity_at_objective.capacity.startup import STUCK_SECONDS
from penstock_operator.decide.scaling.capacity_at_objective.replicas import MIN_HOLD_SECONDS
from penstock_operator.observed import PodProblem, PodSample, PoolSignals, SignalSource
from tests.bench.decide.fleet import TICK, signals
from tests.unit.operator.decide.scaling.test_checkpoint import working
from tests.unit.operator.decide.world import NOW, World, known, pod


def little(world: World) -> PoolSignals:
    """Return the curves of `signals`, with one request a second on each Ready pod."""
    whole = signals(0, world, world.now)
    samples = tuple(map(_calm, _of_ready(world, whole)))
    return PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=world.now)


def _of_ready(world: World, whole: PoolSignals) -> tuple[PodSample, ...]:
    ready = {pod.uid for pod in world.pods if pod.ready}
    return tuple(sample for sample in whole.samples if sample.uid in ready)


def _calm(sample: PodSample) -> PodSample:
    passed = sample.time - NOW + 600
    return replace(sample, waiting=0.0, rows_received=passed, requests_received=passed)


def seconds_until_lower(problem: PodProblem | None) -> float:
    """Return the seconds until scale-down, where pods start to load, never finish, and demand ends 100 s later."""
    world, began = working(), NOW + 20
    world.now = began
    world.pods += tuple(
        pod(f"chat-{number}", ip=f"10.0.0.{number}", ready=False, created=began, revision=world.revision,
            scheduled_since=began, problem=problem)
        for number in range(4, 10)
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


def test_a_pod_that_loads_without_end_delays_scale_down_for_a_bounded_time() -> None:
    seconds = seconds_until_lower(None)
    assert 100 + MIN_HOLD_SECONDS < seconds <= STUCK_SECONDS + 6 * TICK


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ModelLoadFailed", "ImagePullBackOff"])
def test_a_failing_pod_delays_scale_down_no_longer_than_a_usual_hold(reason: str) -> None:
    seconds = seconds_until_lower(PodProblem(reason, "it ended"))
    assert seconds <= 100 + MIN_HOLD_SECONDS + 6 * TICK
