"""Targets of objectives: one value for latency and percentage, merged and compared as a whole."""

import pytest

from penstock_operator.decide.spec.live_fields import OBJECTIVE, plausible
from penstock_operator.decide.spec.objectives import LATE_SHARE, Target
from tests.unit.operator.decide.world import of, policy, pool

LATENCY = OBJECTIVE + "RequestLatency"


def latency(milliseconds: int, percent: int | str | None = None) -> list[dict[str, object]]:
    extra = {} if percent is None else {"percent": percent}
    return [{"metric": "RequestLatency", "milliseconds": milliseconds, **extra}]


@pytest.mark.parametrize(
    ("target", "value"),
    [(Target(500), 500), (Target(500, 95), "500@95"), (Target(500, "99.9"), "500@99.9")],
)
def test_a_target_is_one_value_and_the_integer_of_earlier_releases_at_99_percent(
    target: Target, value: int | str
) -> None:
    assert target.as_field() == value
    assert Target.read(value) == target


def test_99_percent_leaves_exactly_the_share_that_the_laws_are_tuned_for() -> None:
    assert Target(500).late_share == LATE_SHARE == 0.01
    assert Target(500, "99.9").late_share == 0.001
    assert Target(500, 50).late_share == 0.5


def test_a_target_admits_a_tighter_one() -> None:
    assert Target(500, 95).admits(Target(500, 99))
    assert Target(500).admits(Target(400))
    assert not Target(500, 99).admits(Target(500, 95))
    assert not Target(500, 90).admits(Target(600, 99))


@pytest.mark.parametrize("value", [500, "500@95", "500@99.9"])
def test_a_stored_target_is_plausible(value: int | str) -> None:
    assert plausible(LATENCY, value)


@pytest.mark.parametrize("value", [0, "500@99", "500@99.95", "500@", "@95", "500@20", True, "fast"])
def test_another_stored_value_is_not(value: int | str) -> None:
    assert not plausible(LATENCY, value)


def test_the_percentage_reaches_the_law() -> None:
    assert of(pool(objectives=latency(500))).law.late.request == 0.01
    spec = of(pool(objectives=latency(500, "99.9")))
    assert (spec.law.objective_milliseconds, spec.law.late.request) == (500, 0.001)
    assert spec.fields[LATENCY] == "500@99.9"


def test_a_policys_percentage_never_joins_another_policys_latency() -> None:
    first = policy("a", priority=2, defaults={"objectives": latency(500)})
    second = policy("b", priority=1, defaults={"objectives": latency(300, 95)})
    law = of(pool(), first, second).law
    assert (law.objective_milliseconds, law.late.request) == (500, 0.01)


def test_policies_that_differ_in_the_percentage_alone_conflict() -> None:
    first = policy("a", defaults={"objectives": latency(500)})
    second = policy("b", defaults={"objectives": latency(500, 95)})
    assert [tie.field for tie in of(pool(), first, second).ties] == [LATENCY]
