"""What laws see of the simulated world: late, sometimes nothing, and never the future."""

from dataclasses import dataclass, field
from math import ceil

import numpy as np
import pytest

from penstock_operator.decide.scaling.capacity_at_objective.demand.load import load
from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.scaling.signals.aggregates import PoolHistory
from penstock_operator.decide.scaling.signals.service_curve import fit
from penstock_operator.decide.scaling.signals.windows import recent_windows
from penstock_operator.observed import SignalSource
from penstock_simulator.arrivals import steps
from penstock_simulator.baselines.inputs import decided
from penstock_simulator.law_registry import OWN, VENDOR_DEFAULTS, UnknownLaw, law_named
from penstock_simulator.outcome import outcome
from penstock_simulator.scenario import EPOCH, ColdStarts, Loss, Routing
from penstock_simulator.simulation import TickRecord, reversals, simulate
from tests.unit.simulator.scenarios import EXACT, world


@dataclass
class Witness:
    """A law that only remembers what it saw."""

    name: str = "witness"
    seen: list[tuple[float, LawInput]] = field(default_factory=list)

    def initial(self, now: float) -> float:
        return now

    def step(self, state: float, observed: LawInput, now: float) -> tuple[float, Decision]:
        self.seen.append((now - EPOCH, observed))
        return state, decided(observed, observed.replicas, None)


def test_samples_are_as_late_as_the_scenario_says() -> None:
    law = Witness()
    simulate(world(2, loss=Loss(delay_seconds=10.0)), law, steps([(50.0, 60.0)], seed=1))
    ages = {
        now - (sample.time - EPOCH) for now, seen in law.seen for sample in seen.signals.samples
    }
    assert ages == {10.0}


def test_prometheus_scrapes_each_pod_at_a_time_of_its_own() -> None:
    law, loss = Witness(), Loss(SignalSource.PROMETHEUS, delay_seconds=5.0)
    simulate(world(8, loss=loss), law, steps([(50.0, 120.0)], seed=1))
    times: dict[str, list[float]] = {}
    for now, seen in law.seen:
        assert all(5.0 <= now - (sample.time - EPOCH) < 10.0 for sample in seen.signals.samples)
        for sample in seen.signals.samples:
            times.setdefault(sample.uid, []).append(sample.time - EPOCH)
    assert len({scraped[0] % 5.0 for scraped in times.values()}) > 3
    assert {round(gap, 6) for scraped in times.values() for gap in np.diff(scraped)} == {5.0}


def test_jitter_moves_single_scrapes_and_not_their_mean() -> None:
    law, loss = Witness(), Loss(SignalSource.PROMETHEUS, jitter_seconds=2.0)
    simulate(world(1, loss=loss), law, steps([(50.0, 1000.0)], seed=1))
    times = {sample.time for _, seen in law.seen for sample in seen.signals.samples}
    gaps = np.diff(sorted(times))
    assert 5.0 - 4.5 <= gaps.min() < 4.0
    assert 6.0 < gaps.max() <= 5.0 + 4.5
    assert gaps.mean() == pytest.approx(5.0, abs=0.05)


def test_prometheus_repeats_the_last_sample_of_a_pod_until_a_scrape_fails() -> None:
    arrivals = steps([(50.0, 600.0)], seed=1)
    shares = []
    for loss in (0.0, 0.2):
        law = Witness()
        faulty = Loss(SignalSource.PROMETHEUS, jitter_seconds=2.0, share=loss)
        simulate(world(8, loss=faulty), law, arrivals)
        counts = [len({sample.uid for sample in seen.signals.samples}) for _, seen in law.seen[3:]]
        shares.append(sum(counts) / (8 * len(counts)))
    assert shares == [1.0, pytest.approx(0.82, abs=0.03)]


def test_a_planner_by_profile_remembers_the_counters_of_pods_whose_sample_is_lost() -> None:
    arrivals = steps([(145.0, 3000.0)], seed=1)
    run = simulate(world(4, loss=Loss(share=0.2)), law_named("dynamo-180", EXACT), arrivals)
    needed = ceil(145 / EXACT.capacity(32))
    assert max(moment.wanted for moment in run.moments[80:600]) <= needed + 1


def test_a_sum_over_pods_read_at_once_varies_more_than_one_scraped_over_an_interval() -> None:
    """A controller that keeps the maximum of such sums, as an HPA does for 300 s, pays for the difference."""
    spread = []
    for source in (SignalSource.PROMETHEUS, SignalSource.PODS):
        law = Witness()
        arrivals = np.sort(np.repeat(np.arange(0.0, 600.0, 1.7), 120))
        simulate(world(8, loss=Loss(source)), law, arrivals)
        sums = [sum((sample.waiting or 0.0) + (sample.running or 0.0) for sample in seen.signals.samples) for _, seen in law.seen[3:]]  # fmt: skip
        spread.append(float(np.std(sums)))
    assert spread[1] > 1.5 * spread[0]


def test_counters_tell_demand_and_the_curve_as_they_are() -> None:
    law = Witness()
    arrivals = steps([(80.0, 100.0)], seed=1)
    simulate(world(2), law, arrivals)
    now, seen = law.seen[-1]
    received = sum(sample.rows_received or 0.0 for sample in seen.signals.samples)
    assert received == np.searchsorted(arrivals, now - 5.0)
    sums = seen.signals.samples[0].curve
    assert sums is not None
    curve = fit(sums)
    assert curve is not None
    assert (curve.a, curve.c) == pytest.approx((EXACT.a, EXACT.c), rel=1e-6)


def test_duty_saturates_under_batching_as_control_says() -> None:
    """A replica at 13 % of its capacity reads about 80 % busy; from 39 % up it is always busy."""
    law = Witness()
    arrivals = steps([(0.13 * EXACT.capacity(32), 600.0)], seed=1)
    simulate(world(1), law, arrivals)
    duties = [sample.gpu_utilization or 0.0 for _, seen in law.seen[5:] for sample in seen.signals.samples]  # fmt: skip
    assert 0.6 < sum(duties) / len(duties) < 0.85


def test_an_outage_shows_no_source_at_all() -> None:
    law = Witness()
    simulate(world(1, loss=Loss(outages=((20.0, 40.0),))), law, steps([(20.0, 60.0)], seed=1))
    blind = [now for now, seen in law.seen if seen.signals.source is SignalSource.NONE]
    assert blind == [20.0, 25.0, 30.0, 35.0]


def test_the_samples_of_an_outage_are_lost() -> None:
    law, arrivals = Witness(), steps([(20.0, 60.0)], seed=1)
    simulate(world(1, loss=Loss(delay_seconds=0.0, outages=((20.0, 40.0),))), law, arrivals)
    times = [sample.time - EPOCH for _, seen in law.seen for sample in seen.signals.samples]
    assert times[:7] == [0.0, 5.0, 10.0, 15.0, 40.0, 45.0, 50.0]


@dataclass
class Growth(Witness):
    """Requests four replicas from 30 s on."""

    def step(self, state: float, observed: LawInput, now: float) -> tuple[float, Decision]:
        self.seen.append((now - EPOCH, observed))
        return state, decided(observed, 4 if now - EPOCH >= 30.0 else 1, None)


@pytest.mark.parametrize("source", [SignalSource.PODS, SignalSource.PROMETHEUS])
def test_pods_answer_while_they_load_so_that_their_first_requests_count(source: SignalSource) -> None:  # fmt: skip
    """The runtime listens before it loads, so that a pod has a rate from its first scrape as a Ready one on."""
    law = Growth()
    starts = ColdStarts(median_seconds=40.0, sigma=0.0, failing_share=0.0)
    more = {"routing": Routing.LEAST_REQUEST, "cold": starts, "loss": Loss(source)}
    simulate(world(1, **more), law, steps([(80.0, 150.0)], seed=1))  # type: ignore[arg-type]
    history, rates = PoolHistory(), {}
    for now, seen in law.seen:
        history = history.after(seen, EPOCH + now)
        recent = recent_windows(seen.pods, history.windows.pods, history.windows.gone, EPOCH + now)
        if now >= 30.0:
            rates[now] = load(recent, 1.0).newest or 0.0
    assert min(rates.values()) > 0.7 * 80.0


def test_lost_samples_are_lost() -> None:
    law = Witness()
    simulate(world(4, loss=Loss(share=0.5)), law, steps([(20.0, 300.0)], seed=1))
    counts = [len(seen.signals.samples) for _, seen in law.seen[2:]]
    assert 0.35 < sum(counts) / (4 * len(counts)) < 0.65


@pytest.mark.parametrize("name", [*OWN, *VENDOR_DEFAULTS])
def test_every_law_follows_a_step_and_stays_inside_its_bounds(name: str) -> None:
    arrivals = steps([(120.0, 300.0), (500.0, 400.0), (60.0, 300.0)], seed=1)
    run = simulate(world(4), law_named(name, EXACT), arrivals)
    wanted = [moment.wanted for moment in run.moments]
    assert all(1 <= replicas <= 64 for replicas in wanted)
    assert max(wanted) > 4
    assert outcome(run).requests == len(arrivals)


def test_the_default_law_follows_a_step_by_samples_of_15_to_20_seconds_ago() -> None:
    arrivals = steps([(120.0, 300.0), (600.0, 400.0)], seed=1)
    loss = Loss(SignalSource.PROMETHEUS, delay_seconds=15.0)
    run = simulate(world(4, loss=loss), law_named("CapacityAtObjective", EXACT), arrivals)
    blind = [m.time for m in run.moments[10:] if m.replicas_term == "SignalsAbsent"]
    assert not blind
    assert max(moment.wanted for moment in run.moments) > 4


def test_laws_of_the_operator_survive_a_lossy_store() -> None:
    arrivals = steps([(300.0, 400.0)], seed=1)
    loss = Loss(share=0.2, outages=((100.0, 220.0),))
    for name in OWN:
        run = simulate(world(8, loss=loss), law_named(name, EXACT), arrivals)
        blind = [moment.wanted for moment in run.moments if 100.0 <= moment.time < 220.0]
        assert min(blind) >= blind[0]


def test_an_unknown_law_is_rejected_with_the_known_names() -> None:
    with pytest.raises(UnknownLaw, match="keda-queue-N"):
        law_named("keda-queue-many", EXACT)


@pytest.mark.parametrize("name", VENDOR_DEFAULTS)
def test_every_baseline_runs_at_the_cap_in_its_name(name: str) -> None:
    run = simulate(world(4), law_named(f"{name}@8", EXACT), steps([(50.0, 20.0)], seed=1))
    assert run.law == f"{name}@8"
    assert {moment.cap for moment in run.moments} == {8}


def test_a_planner_by_profile_counts_replicas_for_its_cap() -> None:
    arrivals = steps([(145.0, 600.0)], seed=1)
    wanted = [
        simulate(world(10), law_named(name, EXACT), arrivals).moments[100].wanted
        for name in ("dynamo-180@2", "dynamo-180")
    ]
    assert wanted == [ceil(145 / EXACT.capacity(2)), ceil(145 / EXACT.capacity(32))]


@pytest.mark.parametrize("name", ["wva@0", "keda-queue-5@0", "hpa-70@-1", "hpa-inf", "ray-nan"])
def test_a_baseline_without_a_usable_number_is_rejected(name: str) -> None:
    with pytest.raises(UnknownLaw, match="@CAP"):
        law_named(name, EXACT)


def test_reversals_count_turns_only() -> None:
    counts = [3, 4, 5, 5, 4, 4, 6, 6]
    moments = [TickRecord(0.0, 0.0, wanted, 0, 0, 1, 0.0, "", "") for wanted in counts]
    assert reversals(moments) == 2
