"""Leader election: when a process may take the Lease, and for how long a renewal allows writes."""

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

LEASE = ObservedLease(
    holder="a", transitions=3, duration_seconds=15, version="7", unchanged_since=100.0
)


def test_the_holder_may_renew() -> None:
    assert may_take(LEASE, "a", 100.0)


def test_a_released_lease_is_free_at_once() -> None:
    assert may_take(replace(LEASE, holder=""), "b", 100.0)


def test_another_waits_until_the_lease_has_not_changed_for_its_duration() -> None:
    assert not may_take(LEASE, "b", 114.9)
    assert may_take(LEASE, "b", 115.0)


def test_a_lease_is_inherited_from_the_own_installation_only() -> None:
    lease = replace(LEASE, holder="home_pod-1_ab")
    assert may_take(lease, "home_pod-2_cd", 100.0, inherits_from="home_")
    assert not may_take(lease, "home-2_pod-2_cd", 100.0, inherits_from="home-2_")
    assert not may_take(lease, "home_pod-2_cd", 100.0)


def test_transitions_count_changes_of_holder_and_not_renewals() -> None:
    assert next_transitions(LEASE, "a") == 3
    assert next_transitions(LEASE, "b") == 4
    assert next_transitions(replace(LEASE, holder=""), "a") == 4


def test_a_renewal_allows_writes_until_its_deadline_and_no_longer() -> None:
    assert not still_valid(None, 100.0)
    assert still_valid(100.0, 109.9)
    assert not still_valid(100.0, 110.0)


def test_the_holder_stops_writing_well_before_another_may_begin() -> None:
    assert DURATION_SECONDS - DEADLINE_SECONDS >= 5


class FakeLease:
    """A Lease in memory."""

    full_name = "team-a/penstock-pools"

    def __init__(self, **spec: object) -> None:
        self.spec: dict[str, object] = spec
        self.version = 1

    def read(self) -> dict[str, object]:
        return {"metadata": {"resourceVersion": str(self.version)}, "spec": self.spec}

    def write(self, spec: dict[str, object], version: str | None) -> None:
        assert version == str(self.version)
        self.spec, self.version = spec, self.version + 1


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_the_lease_of_a_namespace_is_won_and_released_with_the_installations_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leader_election, "RETRY_SECONDS", 0.01)
    lease, own = FakeLease(holderIdentity="other", leaseTransitions=4), [False]
    lease.spec["leaseDurationSeconds"] = 1
    mine = Leadership(cast("LeaseClient", lease), "a", lambda: own[0])
    mine.start()
    time.sleep(1.2)  # it expires while another replica holds the own Lease
    assert lease.spec["holderIdentity"] == "other"
    own[0] = True
    until(mine.valid)
    assert mine.transitions == 5
    own[0] = False
    until(lambda: lease.spec["holderIdentity"] == "")
    assert not mine.valid()
    mine.stop()
