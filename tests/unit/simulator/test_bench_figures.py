"""The bench's arithmetic: worst attainment, tuned settings, gaps closed."""

from importlib import import_module

import pytest

from penstock_simulator.arrivals import steps
from penstock_simulator.baselines.fixed import fixed
from penstock_simulator.outcome import RunSummary
from penstock_simulator.simulation import simulate
from tests.bench.control import plan, sensitivity
from tests.bench.control.figures import (
    best_single_settings,
    clairvoyant_costs,
    oracle_settings,
    rows,
    score,
)
from tests.bench.control.jobs import CLAIRVOYANT, Job, Result
from tests.bench.control.recovery import recovered_after
from tests.unit.simulator.scenarios import EXACT, world


def result(
    trace: str, law: str, gpu_hours: float, attainment: float = 1.0, seed: int = 1
) -> Result:
    summary = RunSummary(law, 100, attainment, attainment, gpu_hours, 0.1, 0.2, 0, 1.0, 2, 3.0, 4.0)
    return Result(Job(trace, None, law, seed), summary, 1.0)


def everywhere(law: str, gpu_hours: float, attainment: float = 1.0) -> list[Result]:
    traces = [trace for part in plan.PARTS for trace in part]
    return [result(trace, law, gpu_hours, attainment) for trace in traces]


def test_a_law_is_as_good_as_its_worst_seed() -> None:
    table = rows([result("mooncake", "a", 4.0, 0.999, 1), result("mooncake", "a", 9.0, 0.98, 2)])
    assert [row.attainment for row in table] == [0.98]
    assert table[0].gpu_hours == pytest.approx(6.0)


def test_the_bound_is_the_cheapest_run_that_attains_under_any_law() -> None:
    runs = [
        result("mooncake", CLAIRVOYANT, 5.0),
        result("mooncake", "keda-queue-5", 4.0),
        result("mooncake", "hpa-70", 3.0, 0.98),
    ]
    assert clairvoyant_costs(runs) == {("mooncake", 1, 60.0): 4.0}
    assert clairvoyant_costs(runs[1:]) == {}, "without a search there is no bound to be near to"


def test_a_setting_is_tuned_on_the_other_traces_and_must_attain_on_its_own() -> None:
    runs = [
        *everywhere(plan.DEFAULT, 1.5),
        result("azure_conv", "cheap", 1.0),
        result("burstgpt", "cheap", 1.0),
        result("mooncake", "cheap", 1.0, attainment=0.9),
        *everywhere("safe", 2.0),
        *everywhere("dear", 3.0),
    ]
    best = best_single_settings(runs, ["cheap", "safe", "dear"])
    assert best == {"azure_conv": "safe", "burstgpt": "safe", "mooncake": "safe"}


def test_gaps_closed_are_shares_of_the_way_to_the_bound() -> None:
    runs = [
        *everywhere(plan.DEFAULT, 12.0),
        *everywhere(CLAIRVOYANT, 10.0),
        *everywhere("keda-queue-5", 20.0),
        *everywhere("hpa-70", 50.0),
        result(plan.WITHOUT_TARGET, plan.DEFAULT, 99.0, 0.5),
    ]
    scored = score(runs, best_single_settings(runs, ["keda-queue-5"]))
    assert scored.attainment == 1.0
    assert scored.over_clairvoyant == pytest.approx(1.2)
    assert scored.gaps_closed["keda-queue-5"] == pytest.approx(0.8)
    assert scored.gaps_closed["best single setting"] == pytest.approx(0.8)
    assert scored.gaps_closed["hpa-70"] == pytest.approx(0.95)


def test_every_trace_is_either_tuned_on_or_named_without_a_target() -> None:
    assert {trace for part in plan.PARTS for trace in part} | {plan.WITHOUT_TARGET} == set(
        plan.TRACES
    )


def test_recovery_is_over_when_every_ten_seconds_attain_again() -> None:
    arrivals = steps([(20.0, 100.0), (200.0, 20.0), (20.0, 200.0)], seed=1)
    run = simulate(world(1), fixed(1), arrivals)
    overload_ends = 20.0 + 20.0 * 200.0 / EXACT.capacity(32)
    assert 30.0 <= recovered_after(run, 100.0) <= overload_ends + 20.0
    assert recovered_after(simulate(world(6), fixed(6), arrivals), 100.0) == 0.0


def test_a_default_is_changed_wherever_it_is_known_and_put_back() -> None:
    for name in sensitivity.DEFAULTS:
        module, constant = name.rsplit(".", 1)
        room = import_module(f"{sensitivity.LAW_PACKAGE}.{module}")
        before = getattr(room, constant)
        with sensitivity.changed((name, 1.25)):
            assert getattr(room, constant) != before
        assert getattr(room, constant) == before


def test_a_setting_that_was_dropped_on_a_trace_is_not_its_oracle() -> None:
    runs = [*everywhere(plan.DEFAULT, 2.0), *everywhere("safe", 3.0)]
    runs += [result("mooncake", plan.DEFAULT, 2.0, seed=2), result("mooncake", "safe", 3.0, seed=2)]
    runs += [result("mooncake", "cheap", 1.0), result("azure_conv", "cheap", 1.0)]
    settings = oracle_settings(runs, ["cheap", "safe"])
    assert settings == {"azure_conv": "cheap", "burstgpt": "safe", "mooncake": "safe"}
