"""Who may take the Lease, and for how long a renewal allows writes."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import pytest

from penstock_operator.kube import leader_election
from penstock_operator.kube.leader_election import (
    DEADLINE_SECONDS,
    DURATION_SECONDS,
    Leadership,
    ObservedLease,
    may_take,
    next_transitions,
    still_valid,
)
from penstock_operator.kube.lease_client import LeaseClient

HELD = ObservedLease(
    holder="a", transitions=3, duration_seconds=15, version="7", unchanged_since=100.0
)


def test_the_holder_may_renew() -> None:
    assert may_take(HELD, "a", 100.0)


def test_a_lease_that_was_given_back_is_free_at_once() -> None:
    assert may_take(replace(HELD, holder=""), "b", 100.0)


def test_another_waits_until_the_lease_has_not_changed_for_its_duration() -> None:
    assert not may_take(HELD, "b", 114.9)
    assert may_take(HELD, "b", 115.0)


def test_what_a_process_of_ones_own_installation_held_is_inherited_and_what_anothers_did_is_not() -> (
    None
):
    held = replace(HELD, holder="home_pod-1_ab")
    assert may_take(held, "home_pod-2_cd", 100.0, heir_of="home_")
    assert not may_take(held, "home-2_pod-2_cd", 100.0, heir_of="home-2_")
    assert not may_take(held, "home_pod-2_cd", 100.0)


def test_transitions_count_changes_of_holder_and_not_renewals() -> None:
    assert next_transitions(HELD, "a") == 3
    assert next_transitions(HELD, "b") == 4
    assert next_transitions(replace(HELD, holder=""), "a") == 4


def test_a_renewal_allows_writes_until_its_deadline_and_no_longer() -> None:
    assert not still_valid(None, 100.0)
    assert still_valid(100.0, 109.9)
    assert not still_valid(100.0, 110.0)


def test_the_holder_stops_writing_well_before_another_may_begin() -> None:
    assert DURATION_SECONDS - DEADLINE_SECONDS >= 5


class FakeLease:
    """One Lease, written and read by whoever holds this."""

    place = "by team-a/penstock-pools"

    def __init__(self, **spec: object) -> None:
        self.spec: dict[str, object] = spec
        self.version = 1

    def read(self) -> dict[str, object]:
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": self.spec}

    def write(self, spec: dict[str, object], version: str | None) -> None:
        assert version == str(self.version)
        self.spec, self.version = spec, self.version + 1


def until(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_namespaces_lease_is_won_and_given_back_with_the_installations_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_election, "RETRY_SECONDS", 0.01)
    held, own = FakeLease(holderIdentity="other", leaseTransitions=4), [False]
    held.spec["leaseDurationSeconds"] = 1
    mine = Leadership(cast("LeaseClient", held), "a", lambda: own[0])
    mine.start()
    time.sleep(1.2)  # it runs out while the own one is another's: nobody else renews it
    assert held.spec["holderIdentity"] == "other"
    own[0] = True
    until(mine.valid)
    assert mine.transitions == 5
    own[0] = False
    until(lambda: held.spec["holderIdentity"] == "")
    assert not mine.valid()
    mine.stop()
