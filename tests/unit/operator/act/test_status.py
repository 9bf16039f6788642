"""Status writes: which changes of a status are written, and when."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock_api.types.policy import PolicyStatus
from penstock_api.types.status import PoolStatus
from penstock_operator.act.rate_limit import Urgency
from penstock_operator.act.status import (
    JITTER_SECONDS,
    Statuses,
    jitter,
    policy_worth_writing,
    worth_writing,
)
from penstock_operator.decide.plan import PolicyPlan
from penstock_operator.kube import kinds
from penstock_operator.kube.client import ApiRequest
from penstock_operator.kube.kinds import ResourceKind
from penstock_operator.observe.cluster.cache import ObjectStore
from tests.unit.operator.observe.cluster import raw_objects

Json = dict[str, Any]
NOW = 1000.0


def status(**more: Any) -> Json:
    ready = {"type": "Ready", "status": "True", "reason": "Serving", "message": "2 of 2 ready"}
    return {"replicas": 2, "conditions": [ready], **more}


def ready(**more: Any) -> Json:
    return {**status()["conditions"][0], **more}


def test_an_equal_status_is_never_written() -> None:
    assert not worth_writing(status(), status(), None, NOW)


def test_a_count_is_written_at_once() -> None:
    assert worth_writing(status(), status(replicas=3), NOW, NOW)


def test_a_condition_that_changes_its_status_is_written_at_once() -> None:
    changed = status(conditions=[ready(status="False", reason="NameConflict")])
    assert worth_writing(status(), changed, NOW, NOW)


def test_a_changed_message_waits_ten_seconds() -> None:
    changed = status(conditions=[ready(message="3 of 3 ready")])
    assert not worth_writing(status(), changed, NOW - 9, NOW)
    assert worth_writing(status(), changed, NOW - 10, NOW)
    assert worth_writing(status(), changed, NOW + 900, NOW), "the clock stepped back"


def test_a_transition_time_alone_is_not_worth_a_write() -> None:
    dated = status(conditions=[ready(lastTransitionTime="2026-11-21T10:00:00Z")])
    assert not worth_writing(status(), dated, None, NOW)


def test_samples_wait_a_minute_whatever_their_change() -> None:
    current = status(scaling={"source": "Prometheus", "waiting": "10"})
    desired = status(scaling={"source": "Prometheus", "waiting": "900"})

    assert not worth_writing(current, desired, NOW - 59, NOW)
    assert worth_writing(current, desired, NOW - 60, NOW)


def on_time(percent: str) -> Json:
    return status(scaling={"source": "Pods", "onTimePercent": percent})


def test_the_share_on_time_is_judged_by_what_is_late() -> None:
    assert not worth_writing(on_time("99.0"), on_time("99.1"), None, NOW)
    assert worth_writing(on_time("99.5"), on_time("99.2"), None, NOW)
    assert not worth_writing(on_time("60.0"), on_time("63.0"), None, NOW)


def test_samples_inside_their_dead_band_are_never_written() -> None:
    current = status(scaling={"source": "Pods", "rowsPerSecond": "100", "signalAgeSeconds": "1.5"})
    desired = status(scaling={"source": "Pods", "rowsPerSecond": "109", "signalAgeSeconds": "9.0"})

    assert not worth_writing(current, desired, None, NOW)


def test_a_sample_that_appears_or_disappears_is_a_change() -> None:
    current = status(scaling={"source": "Pods"})
    assert worth_writing(current, status(scaling={"source": "Pods", "waiting": "0"}), None, NOW)


def variants(fast: str | None, **more: Any) -> Json:
    return status(
        variants=[{"name": "fast", "rowsPerSecondPerReplica": fast, **more}, {"name": "slow"}]
    )


def test_the_capacity_of_a_variant_is_a_sample_and_whether_it_has_any_a_fact() -> None:
    current = variants("100.0")
    assert not worth_writing(current, variants("100.1"), None, NOW)
    assert not worth_writing(current, variants("150.0"), NOW - 59, NOW)
    assert worth_writing(current, variants("150.0"), NOW - 60, NOW)
    assert worth_writing(current, variants("0.0"), NOW, NOW)
    assert worth_writing(current, variants(None), NOW, NOW)
    assert worth_writing(current, variants("100.0", replicas=2), NOW, NOW)


def test_another_source_is_written_at_once() -> None:
    current, desired = status(scaling={"source": "Prometheus"}), status(scaling={"source": "Pods"})
    assert worth_writing(current, desired, NOW, NOW)


def test_a_decision_that_changes_cap_or_count_is_written_at_once_and_its_message_is_not() -> None:
    decision = {
        "algorithm": "UtilizationBand",
        "cap": 8,
        "replicas": 2,
        "time": "a",
        "message": "m",
    }
    current = status(lastDecision=decision)

    assert worth_writing(current, status(lastDecision={**decision, "cap": 10}), NOW, NOW)
    reworded = status(lastDecision={**decision, "message": "n"})
    assert not worth_writing(current, reworded, NOW, NOW)
    assert worth_writing(current, reworded, NOW - 60, NOW)
    assert not worth_writing(current, status(lastDecision={**decision, "time": "b"}), None, NOW)


def test_jitter_is_constant_for_a_pool_and_bounded() -> None:
    values = [jitter(f"pool-{number}") for number in range(200)]
    assert jitter("pool-1") == jitter("pool-1")
    assert min(values) >= 0
    assert max(values) < JITTER_SECONDS
    assert len(set(values)) > 20


def test_figures_of_a_policy_are_written_every_ten_seconds_at_most() -> None:
    current = {"budgets": [{"wanted": 7}], "matchedPools": 2}
    busier = {"budgets": [{"wanted": 8}], "matchedPools": 2}
    other = {"budgets": [{"wanted": 8}], "matchedPools": 3}
    assert not policy_worth_writing(current, current, None, 0.0)
    assert policy_worth_writing(current, busier, None, 0.0)
    assert not policy_worth_writing(current, busier, 100.0, 109.0)
    assert policy_worth_writing(current, busier, 100.0, 110.0)
    assert policy_worth_writing(current, other, 100.0, 101.0)


def cost(**changes: str) -> Json:
    amounts = {"currency": "EUR", "perHour": "7.50", "perThousandRequests": "0.2000"}
    return {**amounts, "message": "3 pods", **changes}


def test_a_new_price_of_the_hour_is_written_at_once_and_that_of_a_request_once_a_minute() -> None:
    before = status(cost=cost())
    assert worth_writing(before, status(cost=cost(perHour="5.00")), NOW, NOW)
    dearer = status(cost=cost(perThousandRequests="0.2300"))
    assert not worth_writing(before, dearer, NOW - 59, NOW)
    assert worth_writing(before, dearer, NOW - 60, NOW)
    about_the_same = status(cost=cost(perThousandRequests="0.2100"))
    assert not worth_writing(before, about_the_same, NOW - 600, NOW)


def test_a_status_in_which_only_samples_or_messages_changed_waits_with_events() -> None:
    store = ObjectStore()
    store.upsert(kinds.POOL, {**raw_objects.pool(), "status": {"conditions": [ready()]}})
    schemas = SimpleNamespace(of=lambda _: SimpleNamespace(lacking=()))
    statuses = Statuses(cast("Any", None), store, cast("Any", schemas), lambda _: None)
    reworded = PoolStatus.model_validate({"conditions": [ready(message="3 of 3 ready")]})
    unchanged = PoolStatus.model_validate({"conditions": [ready()]})
    desired = (reworded, PoolStatus(replicas=2), unchanged)
    urgencies = [statuses.take_pool("pool-1", each, NOW) for each in desired]
    assert urgencies == [Urgency.EVENT, Urgency.CONDITION, None]


@dataclass
class Answering:
    """Writes statuses, and answers with `answers`, by kind; records which pools become due."""

    answers: dict[str, Json]
    due: list[frozenset[str] | None] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.budget = self
        self.store = ObjectStore()
        self.store.upsert(kinds.POOL, raw_objects.pool())
        self.store.upsert(kinds.POLICY, policy(1))
        schemas = SimpleNamespace(of=lambda _: SimpleNamespace(lacking=()))
        self.statuses = Statuses(
            cast("Any", self), self.store, cast("Any", schemas), self.due.append
        )

    async def turn(self, urgency: Urgency) -> None:
        pass

    async def send(self, kind: ResourceKind, verb: str, request: ApiRequest) -> Json:
        return self.answers[kind.kind]

    async def write(
        self, kind: ResourceKind, verb: str, request: ApiRequest, urgency: Urgency
    ) -> Json:
        return self.answers[kind.kind]

    async def write_pool(self) -> None:
        self.statuses.take_pool("pool-1", PoolStatus(replicas=1), NOW)
        assert await self.statuses.write_pool("pool-1", Urgency.CONDITION)


def policy(version: int, generation: int = 1) -> Json:
    meta = raw_objects.meta("prod", "policy-1", version, generation=generation)
    return {"kind": "InferencePolicy", "metadata": meta, "spec": {}}


def answer(generation: int) -> Json:
    """Return the pool after an edit, of version 2, and the write of its status."""
    raw = raw_objects.pool(version=3)
    return {**raw, "metadata": {**raw["metadata"], "generation": generation}}


@pytest.mark.parametrize(("generation", "due"), [(1, frozenset()), (2, frozenset({"pool-1"}))])
async def test_an_edit_in_the_answer_to_a_status_write_makes_its_pool_due(
    generation: int, due: frozenset[str]
) -> None:
    case = Answering({"InferencePool": answer(generation)})
    await case.write_pool()
    assert case.due == [due]
    assert case.store.upsert(kinds.POOL, answer(generation)) == frozenset(), "its watch event"


@pytest.mark.parametrize(("generation", "due"), [(1, frozenset()), (2, None)])
async def test_an_edit_of_a_policy_in_the_answer_makes_every_pool_due(
    generation: int, due: frozenset[str] | None
) -> None:
    case = Answering({"InferencePolicy": policy(3, generation)})
    plan = PolicyPlan("prod", PolicyStatus(matched_pools=1))
    assert await case.statuses.write_policy(plan, NOW)
    assert case.due == [due]


async def test_an_edit_in_the_answer_to_the_report_of_an_unreadable_pool_makes_it_due() -> None:
    case = Answering({"InferencePool": answer(2)})
    unread = raw_objects.pool(version=2, scaling={"mode": "Telepathy"})
    case.store.upsert(kinds.POOL, unread)
    await case.statuses.write_unreadable(case.store.unreadable["pool-1"], PoolStatus())
    assert case.due == [frozenset({"pool-1"})]
