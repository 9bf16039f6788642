"""docs/design/control-law.md#a-smaller-batch-at-high-utilization-is-positive-feedback: duty over 90 %, so a smaller batch, so a costlier row, so higher duty still."""

from dataclasses import replace

from tests.unit.operator.decide.scaling.utilization_band.literal_rule import LiteralRule
from tests.unit.operator.decide.scaling.world import SETTINGS, World

BUSY = replace(SETTINGS, min_replicas=2, max_replicas=2)


def waiting(world: World) -> float:
    return sum(pod.waiting for pod in world.pods)


def test_the_rule_to_the_letter_walks_the_cap_to_its_minimum_and_drowns() -> None:
    """Two replicas of cap 32 serve 320 rows/s; 200 come. At cap 1 they serve 44."""
    letter = World(rate=200, replicas=2, cap=32, settings=BUSY, law=LiteralRule()).run(900)
    assert letter.last.cap == 1
    assert waiting(letter) > 10_000
    assert letter.last.observations.duty is not None
    assert letter.last.observations.duty > 0.99, "and the device is busier than ever"


def test_the_first_law_keeps_the_cap_and_serves_the_same_load() -> None:
    guarded = World(rate=200, replicas=2, cap=32, settings=BUSY).run(900)
    assert guarded.last.cap >= 32
    assert waiting(guarded) < 64
