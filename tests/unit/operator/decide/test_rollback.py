"""An edit that worsens attainment is set aside: the settings before it rule again, and the spec stays as it is."""

import json
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from penstock_operator.decide.rollback.decision import UNREVISIONED
from penstock_operator.decide.rollback.record import Record, Settings, read_record
from penstock_operator.decide.spec import live_fields
from penstock_operator.decide.spec.effective import GUARDS, EffectiveSpec, in_force
from penstock_operator.observed import PodSample, PolicyObject, PoolSignals, SignalSource
from tests.unit.operator.decide.world import (
    World,
    known,
    message,
    of,
    policy,
    pool,
    reason,
    settled,
)

WINDOW = 60
REQUEST_LATENCY = live_fields.OBJECTIVE + "RequestLatency"
GOOD = {"batching": {"mode": "Fixed", "size": {"max": 16}}}
BAD = {"batching": {"mode": "Fixed", "size": {"max": 2}}}
WORSE = {"batching": {"mode": "Fixed", "size": {"max": 3}}}


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
    assert "batching.size.max 16 -> 2 rolled back" in told
    assert "attainment fell from 100.0 % to 70.0 % at comparable demand (10.0 and 10.0" in told
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


@pytest.mark.parametrize("wait", [0, 20, 45, 120, 600])
def test_a_second_harmful_edit_is_set_aside_however_soon_it_follows(wait: float) -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW + 15)
    assert found.says() == "False/SetAside"
    edited(found, 1.0).live(wait)
    edited(found, 0.7, **WORSE).live(WINDOW + 30)
    assert (found.cap, found.says()) == (16, "False/SetAside")
    assert "from 100.0 % to 70.0 %" in message(found.world.run(), "PolicyApplied")


def test_a_harmful_edit_is_set_aside_though_one_was_just_taken_back() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW - 10)
    edited(found, 0.7, **GOOD).live(10)
    edited(found, 0.7, **BAD).live(WINDOW + 30)
    assert (found.cap, found.says()) == (16, "False/SetAside")


def test_a_second_harmful_edit_is_set_aside_over_a_restart_of_the_operator() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW + 15).restart()
    edited(found, 0.7, **WORSE).live(WINDOW + 30)
    assert (found.cap, found.says()) == (16, "False/SetAside")


def test_an_edit_right_after_a_good_one_is_compared_with_that() -> None:
    found = edited(story(), 0.995, **BAD).live(WINDOW + 15)
    assert "on trial" not in message(found.world.run(), "PolicyApplied")
    edited(found, 0.9, **WORSE).live(WINDOW + 30)
    assert (found.cap, found.says()) == (2, "False/SetAside")
    assert "from 99.5 % to 90.0 %" in message(found.world.run(), "PolicyApplied")


def test_an_old_window_is_forgotten_once_the_good_settings_were_seen_for_one() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW + 15)
    assert known(read_record(found.world.kept)).before is not None
    edited(found, 0.9).live(2 * WINDOW)
    assert known(read_record(found.world.kept)).before is None
    edited(found, 0.9, **WORSE).live(WINDOW + 30)
    assert (found.cap, found.says()) == (3, "True/Applied")


def test_a_trial_whose_window_before_is_not_known_is_over() -> None:
    found = edited(story(), 0.7, **BAD).live(20).restart()
    record = replace(known(read_record(found.world.kept)), before=None)
    found.world.kept = record.as_json()
    found.live(20)
    assert found.cap == 2
    assert "on trial" not in message(found.world.run(), "PolicyApplied")


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


def objective(milliseconds: int) -> dict[str, Any]:
    return {"objectives": [{"metric": "RequestLatency", "milliseconds": milliseconds}]}


@pytest.mark.parametrize("milliseconds", [400, 510])
def test_a_moved_objective_brings_no_edit_that_was_set_aside_into_force(milliseconds: int) -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW + 30)
    edited(found, 1.0, **objective(milliseconds)).live(3 * WINDOW)
    assert (found.cap, found.says()) == (16, "False/SetAside")
    assert known(read_record(found.world.kept)).accepted.fields[REQUEST_LATENCY] == milliseconds
    assert "batching.size.max 16 -> 2 rolled back" in message(found.world.run(), "PolicyApplied")
    edited(found, 1.0, **GOOD).live(5)
    assert (found.cap, found.says()) == (16, "True/Applied")


def test_no_objective_any_more_brings_no_edit_that_was_set_aside_into_force() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW + 30)
    edited(found, 1.0, objectives=[]).live(30)
    assert (found.cap, found.says()) == (16, "False/SetAside")
    assert REQUEST_LATENCY not in known(read_record(found.world.kept)).accepted.fields


def test_a_trial_goes_on_over_a_looser_objective_in_a_window_of_its_own() -> None:
    found = edited(story(), 0.7, **BAD).live(WINDOW - 10)
    edited(found, 0.7, **objective(510)).live(30)
    assert (found.cap, found.says()) == (2, "True/Applied")
    assert "on trial" in message(found.world.run(), "PolicyApplied")
    found.live(WINDOW)
    assert (found.cap, found.says()) == (16, "False/SetAside")


def test_a_trial_over_which_the_objective_tightens_cannot_be_compared_and_ends() -> None:
    found = edited(story(), 0.7, **BAD).live(30)
    edited(found, 0.2, **objective(100)).live(3 * WINDOW)
    assert (found.cap, found.says()) == (2, "True/Applied")
    assert "on trial" not in message(found.world.run(), "PolicyApplied")


def test_a_replica_count_and_a_weight_are_nobodys_revision() -> None:
    found = edited(story(), 0.5, replicas=1, weight=3).live(3 * WINDOW)
    assert found.says() == "True/Applied"


OTHERS = {
    live_fields.ALGORITHM: "UtilizationBand",
    live_fields.DISCIPLINE: "FirstInFirstOut",
    live_fields.PREEMPTION: "Never",
}


@pytest.mark.parametrize("path", sorted(live_fields.BUILT_IN.keys() - set(UNREVISIONED)))
def test_every_setting_of_a_revision_is_brought_back(path: str) -> None:
    plain = of(pool())
    value = live_fields.BUILT_IN[path]
    other = OTHERS[path] if isinstance(value, str) else value + 1
    guards = frozenset({path}) & GUARDS

    def serving(found: EffectiveSpec) -> tuple[object, ...]:
        batching = (found.max_queue_depth, found.discipline, found.preemption)
        return (found.law, found.algorithm, *batching)

    moved = in_force(plain, {**plain.fields, path: other}, guards)
    assert serving(moved) != serving(plain)
    assert serving(in_force(moved, plain.fields, plain.guarded)) == serving(plain)


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
    assert read_record(record.as_json()) == record
    assert json.loads(record.as_json())["trial"] == "abc"
    for text in (None, "", "{", "[]", '{"accepted": 3}', '{"unknown": 1}'):
        assert read_record(text) is None


@pytest.mark.parametrize("text", ["{}", '{"accepted": {"fields": {"batching.size.max": "many"}}}'])
def test_a_record_edited_by_hand_ends_no_pass(text: str) -> None:
    found = story().restart()
    found.world.kept = text
    assert found.live(30).cap == 16


def test_a_record_of_the_version_before_still_loads() -> None:
    text = (
        '{"accepted":{"fields":{"batching.size.max":16},"guarded":[]},"trial":"",'
        '"before":{"good":9.0,"total":10.0,"seconds":60.0},"set_aside":"abc","why":"slow"}'
    )
    record = known(read_record(text))
    assert (record.rolled_back, known(record.before).attainment) == ("abc", 0.9)
    assert json.loads(record.as_json()) == json.loads(text)
