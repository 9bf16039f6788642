"""Schedules raise the floor from the first second of a window to the last, in their time zone."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock_operator.decide.spec.effective import effective
from penstock_operator.decide.spec.schedules import faults, highest, openings
from penstock_operator.decide.status.conditions.policy_applied import POLICY_APPLIED
from penstock_operator.observed import PolicyObject
from tests.unit.operator.decide.world import World, message, policy, pool

BERLIN = ZoneInfo("Europe/Berlin")


def schedule(**more: Any) -> dict[str, Any]:
    plain = {"name": "morning", "cron": "30 8 * * MON-FRI", "durationMinutes": 90}
    return {**plain, "timeZone": "Europe/Berlin", "minReplicas": 4, **more}


def busy(**more: Any) -> PolicyObject:
    return policy("prod", schedules=[schedule(**more)])


def berlin(*when: int) -> float:
    return datetime(*when, tzinfo=BERLIN).timestamp()  # type: ignore[arg-type,misc]


def utc(*when: int) -> float:
    return datetime(*when, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc]


def floor(policies: list[PolicyObject], now: float, **scaling: Any) -> int:
    spec = effective(
        pool(scaling={"mode": "Auto", **scaling}), {}, policies, {}, openings(policies, now)
    )
    return spec.law.min_replicas


@pytest.mark.parametrize(
    ("when", "replicas"),
    [
        ((2026, 11, 20, 8, 29, 59), 1),
        ((2026, 11, 20, 8, 30, 0), 4),
        ((2026, 11, 20, 9, 59, 59), 4),
        ((2026, 11, 20, 10, 0, 0), 1),
        ((2026, 11, 21, 9, 0, 0), 1),  # a Saturday
        ((2026, 7, 20, 9, 0, 0), 4),  # summer time
    ],
)
def test_a_window_is_open_from_its_first_second_to_its_last(
    when: tuple[int, ...], replicas: int
) -> None:
    assert floor([busy()], berlin(*when)) == replicas


def test_without_a_time_zone_cron_is_in_utc() -> None:
    plain = busy(timeZone=None)
    assert floor([plain], utc(2026, 11, 20, 9, 0)) == 4
    assert floor([plain], berlin(2026, 11, 20, 9, 0)) == 1


def test_a_window_may_cross_midnight_and_the_change_of_clocks() -> None:
    night = busy(cron="0 22 * * *", durationMinutes=480)
    assert (
        floor([night], berlin(2026, 10, 25, 4, 59)) == 4
    )  # nine hours of local time, eight elapsed
    assert floor([night], berlin(2026, 10, 25, 5, 0)) == 1


def open_minutes(policy_: PolicyObject, begin: float, hours: int) -> list[int]:
    """Return the minutes after `begin` in which the window is open."""
    return [minute for minute in range(60 * hours) if floor([policy_], begin + 60 * minute) == 4]


def test_a_time_that_occurs_twice_opens_once_and_stays_open_through_both() -> None:
    """The clocks of Berlin go from 3:00 back to 2:00 at 1:00 UTC."""
    nightly = busy(cron="30 2 * * *")
    assert open_minutes(nightly, utc(2026, 10, 25), 5) == list(range(30, 120))
    late = busy(cron="10 3 * * *")
    assert open_minutes(late, utc(2026, 10, 25), 5) == list(range(130, 220))


def test_a_window_of_every_hour_opens_in_both() -> None:
    hourly = busy(cron="30 * * * *", durationMinutes=20)
    opened = open_minutes(hourly, utc(2026, 10, 25), 3)
    assert opened == [*range(30, 50), *range(90, 110), *range(150, 170)]


def test_a_skipped_time_opens_right_after_the_clock_change() -> None:
    """The clocks of Berlin go from 2:00 to 3:00 at 1:00 UTC."""
    nightly = busy(cron="30 2 * * *")
    assert open_minutes(nightly, utc(2026, 3, 29), 5) == list(range(60, 150))


def test_of_several_open_windows_the_highest_floor_applies() -> None:
    policies = [busy(), policy("peak", schedules=[schedule(name="peak", minReplicas=6)])]
    assert floor(policies, berlin(2026, 11, 20, 9, 0)) == 6


def test_a_floor_lowers_nothing_and_never_exceeds_the_maximum() -> None:
    now = berlin(2026, 11, 20, 9, 0)
    assert floor([busy()], now, minReplicas=5) == 5
    assert floor([busy()], now, maxReplicas=3) == 3
    assert floor([busy(), policy("cap", bounds={"replicas": {"max": 2}})], now) == 2


def test_the_condition_names_the_open_window_and_its_end() -> None:
    world = World(pool=pool(scaling={"mode": "Auto", "maxReplicas": 3}), policies=(busy(),))
    world.now = berlin(2026, 11, 20, 9, 0)
    text = message(world.run(), POLICY_APPLIED)
    assert "schedule morning of policy prod: at least 3 replicas until 2026-11-20 09:00 UTC" in text
    assert "4 exceeds scaling.maxReplicas" in text


def test_an_open_window_starts_the_replicas_of_its_floor_at_once() -> None:
    world = World(pool=pool(scaling={"mode": "Auto"}), policies=(busy(),))
    world.now = berlin(2026, 11, 20, 8, 0)
    world.settle()
    assert world.deployment["spec"]["replicas"] == 1
    world.now = berlin(2026, 11, 20, 8, 30)
    world.settle()
    assert world.deployment["spec"]["replicas"] == 4


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"timeZone": "Mars/Base"},
            "spec.schedules[morning].timeZone Mars/Base is not an IANA time zone",
        ),
        (
            {"cron": "61 8 * * *"},
            "spec.schedules[morning].cron '61 8 * * *' is invalid (Bad minute)",
        ),
        ({"cron": "0 8 31 2 *"}, "spec.schedules[morning].cron '0 8 31 2 *' is invalid"),
    ],
)
def test_an_invalid_schedule_is_reported_with_field_value_and_remedy(
    wrong: dict[str, Any], said: str
) -> None:
    bad = busy(**wrong)
    assert said in faults(bad)[0]
    assert openings([bad], berlin(2026, 11, 20, 9, 0)) == {}
    plan = World(policies=(bad,)).whole_plan()
    accepted = next(
        condition
        for condition in plan.policies[0].status.conditions or ()
        if condition.type == "Accepted"
    )
    assert accepted.reason == "ScheduleInvalid"
    assert said in accepted.message


def test_a_pool_without_policies_has_no_floor_but_its_own() -> None:
    assert highest({}, []) is None
