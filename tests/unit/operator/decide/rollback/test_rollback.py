"""Rollback: an edit that lowers attainment is rolled back to the previous settings, and the spec does not change."""

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import pytest

from penstock_operator.decide.rollback.decision import UNREVISIONED
from penstock_operator.decide.rollback.record import Score, Settings, read_record
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
class Measured:
    """A pool with requests of which the share `on_time` is on time."""

    world: World
    rate: float = 10.0
    on_time: float = 1.0
    good: float = field(default=0.0)
    total: float = field(default=0.0)

    def run(self, seconds: float) -> "Measured":
        """Tick every 5 s; every plan and its record take effect."""
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

    def restart(self) -> "Measured":
        """Restart the operator, which keeps only its stored record."""
        self.world.states.clear()
        return self

    @property
    def cap(self) -> int:
        """The largest batch that the published limits allow."""
        return self.world.limits().max_batch_size

    def condition(self) -> str:
        return reason(self.world.run(), "PolicyApplied")


def measured_pool(*policies: PolicyObject, **spec: Any) -> Measured:
    given = {
        "batching": {"mode": "Fixed", "size": {"max": 16}},
        "objectives": [{"metric": "RequestLatency", "milliseconds": 500}],
    }
    world = settled(pool=pool(**{**given, **spec}), policies=policies or (watching(),))
    return Measured(world).run(2 * WINDOW)


def edited(case: Measured, on_time: float, **spec: Any) -> Measured:
    case.world.edit_spec(**spec)
    case.on_time = on_time
    return case


def test_an_edit_that_lowers_attainment_is_rolled_back_after_a_window() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW)
    assert (case.cap, case.condition()) == (2, "True/Applied")
    case.run(30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_the_condition_names_the_edit_the_loss_and_a_remedy() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(2 * WINDOW)
    text = message(case.world.run(), "PolicyApplied")
    assert "batching.size.max 16 -> 2 rolled back" in text
    assert "attainment fell from 100.0 % to 70.0 % at comparable demand (10.0 and 10.0" in text
    assert "try others, or set rollback.mode to Never" in text


@pytest.mark.parametrize("on_trial", [False, True])
def test_an_edit_is_measured_although_the_clock_was_set_back(on_trial: bool) -> None:
    case = measured_pool()
    if on_trial:
        edited(case, 0.7, **BAD).run(WINDOW / 2)
    case.world.now -= 7200
    if not on_trial:
        edited(case.run(2 * WINDOW), 0.7, **BAD)
    case.run(2 * WINDOW)
    assert case.condition() == "False/SetAside"


def test_no_spec_is_changed() -> None:
    case = edited(measured_pool(), 0.7, **BAD)
    for _ in range(30):
        case.run(5)
    assert known(known(case.world.pool.spec.batching).size).max == 2
    assert {kind for kind, _ in case.world.children} == {
        "Service",
        "Deployment",
        "ConfigMap",
        "PodDisruptionBudget",
        "ServiceAccount",
    }


def test_a_rolled_back_edit_stays_so_after_a_restart_of_the_operator() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(2 * WINDOW).restart()
    assert (case.cap, case.condition()) == (16, "False/SetAside")
    case.on_time = 1.0
    assert (case.run(600).cap, case.condition()) == (16, "False/SetAside")


def test_a_setting_that_the_accepted_ones_leave_out_is_rolled_back() -> None:
    case = edited(measured_pool(), 0.7, batching={**GOOD["batching"], "maxBatchedTokens": 16})
    case.run(2 * WINDOW)
    assert case.condition() == "False/SetAside"
    assert case.world.limits().max_batched_tokens is None


def test_a_trial_continues_after_a_restart_of_the_operator() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(30).restart().run(100)
    assert case.condition() == "False/SetAside"


def test_an_edit_without_a_loss_is_accepted() -> None:
    case = edited(measured_pool(), 0.995, **BAD).run(3 * WINDOW)
    assert (case.cap, case.condition()) == (2, "True/Applied")
    assert "on trial" not in message(case.world.run(), "PolicyApplied")
    case.on_time = 0.5  # a later loss of attainment has another cause
    assert case.run(3 * WINDOW).cap == 2


@pytest.mark.parametrize(
    ("percent", "on_time", "cap"),
    [(99, 0.985, 16), (95, 0.96, 2), (95, 0.94, 16), ("99.9", 0.996, 16), ("99.9", 0.9995, 2)],
)
def test_the_loss_that_rolls_back_is_the_share_that_may_miss_the_objective(
    percent: int | str, on_time: float, cap: int
) -> None:
    objectives = [{"metric": "RequestLatency", "milliseconds": 500, "percent": percent}]
    case = edited(measured_pool(objectives=objectives), on_time, **BAD)
    assert case.run(3 * WINDOW).cap == cap


def test_an_edit_that_raises_the_percentage_is_accepted_with_it() -> None:
    stricter = [{"metric": "RequestLatency", "milliseconds": 500, "percent": "99.9"}]
    case = edited(measured_pool(), 0.7, objectives=stricter, **BAD)
    assert case.run(3 * WINDOW).cap == 2, "attainment before it cannot be compared"


def test_a_trial_goes_on_under_a_lower_percentage() -> None:
    looser = [{"metric": "RequestLatency", "milliseconds": 500, "percent": 95}]
    case = edited(measured_pool(), 0.7, **BAD).run(30)
    case.world.edit_spec(objectives=looser)
    assert case.run(3 * WINDOW).cap == 16


def test_a_trial_is_reported_on_the_pool() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(20)
    assert "the settings are on trial" in message(case.world.run(), "PolicyApplied")


def test_at_different_demand_an_edit_is_accepted() -> None:
    case = edited(measured_pool(), 0.7, **BAD)
    case.rate = 20.0
    assert case.run(10 * WINDOW).cap == 2


def test_a_new_edit_is_compared_with_the_same_accepted_settings() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(2 * WINDOW)
    edited(case, 0.99, batching={"mode": "Fixed", "size": {"max": 8}}).run(20)
    assert case.cap == 8
    edited(case, 1.0, batching={"mode": "Fixed", "size": {"max": 16}}).run(10)
    assert (case.cap, case.condition()) == (16, "True/Applied")


@pytest.mark.parametrize("wait", [0, 20, 45, 120, 600])
def test_a_second_harmful_edit_is_rolled_back_however_soon_it_follows(wait: float) -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15)
    assert case.condition() == "False/SetAside"
    edited(case, 1.0).run(wait)
    edited(case, 0.7, **WORSE).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")
    assert "from 100.0 % to 70.0 %" in message(case.world.run(), "PolicyApplied")


def test_a_harmful_edit_is_rolled_back_right_after_an_undone_one() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW - 10)
    edited(case, 0.7, **GOOD).run(10)
    edited(case, 0.7, **BAD).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_a_second_harmful_edit_is_rolled_back_after_a_restart_of_the_operator() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15).restart()
    edited(case, 0.7, **WORSE).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_an_edit_right_after_an_accepted_one_is_compared_with_that() -> None:
    case = edited(measured_pool(), 0.995, **BAD).run(WINDOW + 15)
    assert "on trial" not in message(case.world.run(), "PolicyApplied")
    edited(case, 0.9, **WORSE).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (2, "False/SetAside")
    assert "from 99.5 % to 90.0 %" in message(case.world.run(), "PolicyApplied")


def test_a_new_window_of_the_accepted_settings_replaces_the_old_one() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 15)
    assert known(known(read_record(case.world.kept)).before).attainment == 1.0
    edited(case, 0.9).run(3 * WINDOW)
    assert known(known(read_record(case.world.kept)).before).attainment == pytest.approx(0.9)
    edited(case, 0.9, **WORSE).run(WINDOW + 30)
    assert (case.cap, case.condition()) == (3, "True/Applied")


def test_a_trial_without_a_window_before_ends() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(20).restart()
    record = replace(known(read_record(case.world.kept)), before=None)
    case.world.kept = record.as_json()
    case.run(20)
    assert case.cap == 2
    assert "on trial" not in message(case.world.run(), "PolicyApplied")


def test_an_edit_of_a_policy_is_measured_like_the_pools_own() -> None:
    case = measured_pool(
        watching(defaults={"batching": {"size": {"max": 16}}}), batching={"mode": "Fixed"}
    )
    assert case.cap == 16
    case.world.policies = (watching(bounds={"batchSize": {"max": 2}}),)
    case.on_time = 0.5
    assert case.run(30).cap == 2
    assert (case.run(2 * WINDOW).cap, case.condition()) == (16, "False/SetAside")


def test_the_bound_of_a_policy_without_rollback_always_applies() -> None:
    case = measured_pool()
    case.world.policies = (watching(), policy("strict", bounds={"batchSize": {"max": 2}}))
    case.on_time = 0.5
    assert case.run(3 * WINDOW).cap == 2


def test_an_edit_with_a_tighter_objective_is_accepted() -> None:
    case = measured_pool()
    tighter = [{"metric": "RequestLatency", "milliseconds": 100}]
    edited(case, 0.2, objectives=tighter, **BAD).run(3 * WINDOW)
    assert (case.cap, case.condition()) == (2, "True/Applied")


def objective(milliseconds: int) -> dict[str, Any]:
    return {"objectives": [{"metric": "RequestLatency", "milliseconds": milliseconds}]}


@pytest.mark.parametrize("milliseconds", [400, 510])
def test_a_changed_objective_does_not_apply_a_rolled_back_edit(milliseconds: int) -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 30)
    edited(case, 1.0, **objective(milliseconds)).run(3 * WINDOW)
    assert (case.cap, case.condition()) == (16, "False/SetAside")
    assert known(read_record(case.world.kept)).accepted.fields[REQUEST_LATENCY] == milliseconds
    assert "batching.size.max 16 -> 2 rolled back" in message(case.world.run(), "PolicyApplied")
    edited(case, 1.0, **GOOD).run(5)
    assert (case.cap, case.condition()) == (16, "True/Applied")


def test_a_removed_objective_does_not_apply_a_rolled_back_edit() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW + 30)
    edited(case, 1.0, objectives=[]).run(30)
    assert (case.cap, case.condition()) == (16, "False/SetAside")
    assert REQUEST_LATENCY not in known(read_record(case.world.kept)).accepted.fields


def test_a_trial_continues_with_a_new_window_under_a_looser_objective() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(WINDOW - 10)
    edited(case, 0.7, **objective(510)).run(30)
    assert (case.cap, case.condition()) == (2, "True/Applied")
    assert "on trial" in message(case.world.run(), "PolicyApplied")
    case.run(WINDOW)
    assert (case.cap, case.condition()) == (16, "False/SetAside")


def test_a_trial_ends_when_the_objective_tightens() -> None:
    case = edited(measured_pool(), 0.7, **BAD).run(30)
    edited(case, 0.2, **objective(100)).run(3 * WINDOW)
    assert (case.cap, case.condition()) == (2, "True/Applied")
    assert "on trial" not in message(case.world.run(), "PolicyApplied")


def test_a_replica_count_and_a_weight_are_not_part_of_a_revision() -> None:
    case = edited(measured_pool(), 0.5, replicas=1, weight=3).run(3 * WINDOW)
    assert case.condition() == "True/Applied"


OTHERS = {
    live_fields.ALGORITHM: "UtilizationBand",
    live_fields.DISCIPLINE: "FirstInFirstOut",
    live_fields.PREEMPTION: "Never",
}


REVISIONED = {*live_fields.BUILT_IN, live_fields.MAX_BATCHED_TOKENS} - set(UNREVISIONED)


@pytest.mark.parametrize("path", sorted(REVISIONED))
def test_every_setting_of_a_revision_is_rolled_back(path: str) -> None:
    plain = of(pool())
    value = live_fields.BUILT_IN.get(path, 512)
    other = OTHERS[path] if isinstance(value, str) else value + 1
    guards = frozenset({path}) & GUARDS

    def serving(spec: EffectiveSpec) -> tuple[object, ...]:
        batching = (spec.max_queue_depth, spec.discipline, spec.preemption, spec.max_batched_tokens)
        return (spec.law, spec.algorithm, *batching)

    moved = in_force(plain, {**plain.fields, path: other}, guards)
    assert serving(moved) != serving(plain)
    assert serving(in_force(moved, plain.fields, plain.guarded)) == serving(plain)


def test_the_window_after_begins_when_every_pod_acknowledged_the_settings() -> None:
    case = edited(measured_pool(), 0.7, **BAD)
    case.run(5)
    answers = dict(case.world.acknowledgements)
    for _ in range(20):
        case.world.acknowledgements = {
            uid: replace(answer, generation=1) for uid, answer in answers.items()
        }
        case.run(5)
        case.world.acknowledgements = {
            uid: replace(answer, generation=1) for uid, answer in answers.items()
        }
    assert case.condition() == "True/Applied"
    assert case.run(2 * WINDOW).condition() == "False/SetAside"


def test_a_law_that_an_upgrade_replaces_is_not_on_trial() -> None:
    model = {
        "task": "TextGeneration",
        "source": {
            "type": "PersistentVolumeClaim",
            "persistentVolumeClaim": {"claimName": "models", "path": "chat"},
        },
    }
    case = measured_pool(model=model, scaling={"algorithm": "UtilizationBand"})
    record = known(read_record(case.world.kept))
    fields = {**record.accepted.fields, live_fields.ALGORITHM: "UtilizationBand"}
    before = replace(record, accepted=Settings(fields), before=Score(600.0, 600.0, 60.0))
    case.world.kept = before.as_json()
    edited(case.restart(), 0.7).run(3 * WINDOW)
    assert case.condition() == "True/Applied"
    accepted = known(read_record(case.world.kept)).accepted
    assert accepted.fields[live_fields.ALGORITHM] == "CapacityAtObjective"


def test_without_rollback_no_record_is_kept_and_no_edit_is_rolled_back() -> None:
    for rules in (policy("prod", rollback={"mode": "Never"}), policy("prod")):
        case = edited(measured_pool(rules), 0.5, **BAD).run(3 * WINDOW)
        assert (case.cap, case.world.kept) == (2, None)


def test_with_too_few_requests_an_edit_is_accepted() -> None:
    case = measured_pool()
    case.rate = 0.1
    case.run(3 * WINDOW)
    assert edited(case, 0.0, **BAD).run(6 * WINDOW).cap == 2


@pytest.mark.parametrize("text", ["{}", '{"accepted": {"fields": {"batching.size.max": "many"}}}'])
def test_a_record_edited_by_hand_fails_no_pass(text: str) -> None:
    case = measured_pool().restart()
    case.world.kept = text
    assert case.run(30).cap == 16
