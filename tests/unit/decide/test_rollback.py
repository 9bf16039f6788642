"""An edit that worsens attainment is set aside: the settings before it rule again, and the spec stays as it is."""

import json
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from penstock_operator.decide.rollback.record import Record, Settings, read
from penstock_operator.observed import PodSample, PolicyObject, PoolSignals, SignalSource
from tests.unit.decide.world import World, known, message, policy, pool, reason, settled

WINDOW = 60
BAD = {"batching": {"mode": "Fixed", "size": {"max": 2}}}


def watching(name: str = "prod", **more: Any) -> PolicyObject:
    return policy(name, rollback={"mode": "OnObjectiveMiss", "windowSeconds": WINDOW}, **more)


@dataclass
class Story:
    """A pool whose requests are on time or not, as it is told."""

    world: World
    rate: float = 10.0
    on_time: float = 1.0
    good: float = field(default=0.0)
    total: float = field(default=0.0)

    def live(self, seconds: float) -> "Story":
        """Tick every 5 s; every plan comes true, and what is kept is kept."""
        for _ in range(int(seconds // 5)):
            self.total += 5 * self.rate
            self.good += 5 * self.rate * self.on_time
            uid = self.world.pods[0].uid
            buckets = ((0.5, self.good), (inf, self.total))
            sample = PodSample(
                uid, self.world.now, requests_settled=self.total, request_duration_buckets=buckets
            )
            self.world.signals = PoolSignals(SignalSource.PODS, (sample,))
            self.world.kept = self.world.settle().record
        return self

    def restart(self) -> "Story":
        """The operator forgets everything but what it keeps."""
        self.world.states.clear()
        return self

    @property
    def cap(self) -> int:
        """The largest batch that the published limits allow."""
        return self.world.limits().max_batch_size

    def says(self) -> str:
        return reason(self.world.run(), "PolicyApplied")


def story(*policies: PolicyObject, **spec: Any) -> Story:
    given = {
        "batching": {"mode": "Fixed", "size": {"max": 16}},
        "objectives": [{"metric": "RequestLatency", "milliseconds": 500}],
    }
    world = settled(pool=pool(**{**given, **spec}), policies=policies or (watching(),))
    return Story(world).live(2 * WINDOW)


def edited(found: Story, on_time: float, **spec: Any) -> Story:
    found.world.edit_spec(**spec)
    found.on_time = on_time
    return found


def test_an_edit_that_worsens_attainment_is_set_aside_after_a_window() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW)
    assert (found.cap, found.says()) == (2, "True/Applied")
    found.live(30)
    assert (found.cap, found.says()) == (16, "False/SetAside")


def test_the_condition_names_what_is_set_aside_how_much_it_cost_and_what_to_do() -> None:
    found = edited(story(), 0.7, **BAD).live(2 * WINDOW)
    told = message(found.world.run(), "PolicyApplied")
    assert "batching.size.max 16 -> 2 set aside" in told
    assert "attainment fell from 100.0 % to 70.0 % at like demand (10.0 and 10.0" in told
    assert "try others, or set rollback.mode to Never" in told


def test_nobodys_spec_is_touched() -> None:
    found = edited(story(), 0.7, **BAD)
    for _ in range(30):
        found.live(5)
    assert known(known(found.world.pool.spec.batching).size).max == 2
    assert {kind for kind, _ in found.world.children} == {
        "Service",
        "Deployment",
        "ConfigMap",
        "PodDisruptionBudget",
        "ServiceAccount",
    }


def test_a_set_aside_edit_stays_so_over_a_restart_of_the_operator() -> None:
    found = edited(story(), 0.7, **BAD).live(2 * WINDOW).restart()
    assert (found.cap, found.says()) == (16, "False/SetAside")
    found.on_time = 1.0
    assert (found.live(600).cap, found.says()) == (16, "False/SetAside")


def test_a_trial_goes_on_after_a_restart_of_the_operator() -> None:
    found = edited(story(), 0.7, **BAD).live(30).restart().live(100)
    assert found.says() == "False/SetAside"


def test_an_edit_that_does_no_harm_is_kept() -> None:
    found = edited(story(), 0.995, **BAD).live(3 * WINDOW)
    assert (found.cap, found.says()) == (2, "True/Applied")
    assert "on trial" not in message(found.world.run(), "PolicyApplied")
    found.on_time = 0.5  # a later loss has another cause
    assert found.live(3 * WINDOW).cap == 2


def test_while_it_is_tried_the_pool_says_so() -> None:
    found = edited(story(), 0.7, **BAD).live(20)
    assert "the settings are on trial" in message(found.world.run(), "PolicyApplied")


def test_at_other_demand_nothing_is_blamed_on_the_edit() -> None:
    found = edited(story(), 0.7, **BAD)
    found.rate = 20.0
    assert found.live(10 * WINDOW).cap == 2


def test_a_new_edit_is_tried_anew_against_the_same_good_settings() -> None:
    found = edited(story(), 0.7, **BAD).live(2 * WINDOW)
    edited(found, 0.99, batching={"mode": "Fixed", "size": {"max": 8}}).live(20)
    assert found.cap == 8
    edited(found, 1.0, batching={"mode": "Fixed", "size": {"max": 16}}).live(10)
    assert (found.cap, found.says()) == (16, "True/Applied")


def test_an_edit_of_a_policy_is_judged_like_the_pools_own() -> None:
    found = story(
        watching(defaults={"batching": {"size": {"max": 16}}}), batching={"mode": "Fixed"}
    )
    assert found.cap == 16
    found.world.policies = (watching(bounds={"batchSize": {"max": 2}}),)
    found.on_time = 0.5
    assert found.live(30).cap == 2
    assert (found.live(2 * WINDOW).cap, found.says()) == (16, "False/SetAside")


def test_the_bound_of_a_policy_without_rollback_always_holds() -> None:
    found = story()
    found.world.policies = (watching(), policy("strict", bounds={"batchSize": {"max": 2}}))
    found.on_time = 0.5
    assert found.live(3 * WINDOW).cap == 2


def test_an_edit_of_the_objective_is_never_judged_by_it() -> None:
    found = story()
    tighter = [{"metric": "RequestLatency", "milliseconds": 100}]
    edited(found, 0.2, objectives=tighter, **BAD).live(3 * WINDOW)
    assert (found.cap, found.says()) == (2, "True/Applied")


def test_a_replica_count_and_a_weight_are_nobodys_revision() -> None:
    found = edited(story(), 0.5, replicas=1, weight=3).live(3 * WINDOW)
    assert found.says() == "True/Applied"


def test_the_window_after_begins_when_every_pod_obeys() -> None:
    found = edited(story(), 0.7, **BAD)
    found.live(5)
    answers = dict(found.world.acknowledgements)
    for _ in range(20):
        found.world.acknowledgements = {
            uid: replace(one, generation=1) for uid, one in answers.items()
        }
        found.live(5)
        found.world.acknowledgements = {
            uid: replace(one, generation=1) for uid, one in answers.items()
        }
    assert found.says() == "True/Applied"
    assert found.live(2 * WINDOW).says() == "False/SetAside"


def test_never_and_no_word_keep_nothing_and_set_nothing_aside() -> None:
    for rules in (policy("prod", rollback={"mode": "Never"}), policy("prod")):
        found = edited(story(rules), 0.5, **BAD).live(3 * WINDOW)
        assert (found.cap, found.world.kept) == (2, None)


def test_with_too_few_requests_to_judge_by_an_edit_is_kept() -> None:
    found = story()
    found.rate = 0.1
    found.live(3 * WINDOW)
    assert edited(found, 0.0, **BAD).live(6 * WINDOW).cap == 2


def test_a_record_survives_its_json_and_one_that_cannot_be_read_is_none() -> None:
    guards = ("scaling.queueDepth.targetPerReplica",)
    record = Record(Settings({"batching.size.max": 16}, guards), trial="abc")
    assert read(record.as_json()) == record
    assert json.loads(record.as_json())["trial"] == "abc"
    for text in (None, "", "{", "[]", '{"accepted": 3}', '{"unknown": 1}'):
        assert read(text) is None


@pytest.mark.parametrize("text", ["{}", '{"accepted": {"fields": {"batching.size.max": "many"}}}'])
def test_a_record_edited_by_hand_ends_no_pass(text: str) -> None:
    found = story().restart()
    found.world.kept = text
    assert found.live(30).cap == 16
