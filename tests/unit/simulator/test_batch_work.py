"""Batch work in the simulator: lines take free places only, each once, the first deadline first, and replicas within a budget."""

from argparse import ArgumentTypeError
from dataclasses import replace

import numpy as np
import pytest

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_simulator.baselines.fixed import fixed
from penstock_simulator.law_registry import law_named
from penstock_simulator.options import line_batch
from penstock_simulator.outcome import BatchSummary, completed, outcome
from penstock_simulator.scenario import ImpossibleScenario, LineBatch, Routing, Scenario
from penstock_simulator.simulation import RunRecord, simulate
from tests.unit.simulator.scenarios import EXACT, world

RARE = np.arange(1.0, 60.0, 5.0)
EACH = EXACT.capacity(32)
"""Rows a second of a replica with full batches."""


def filled(*batches: LineBatch, **more: object) -> Scenario:
    return world(batches=batches, **more)  # type: ignore[arg-type]


def work(run: RunRecord) -> BatchSummary:
    summary = outcome(run).batch_work
    assert summary is not None
    return summary


@pytest.mark.parametrize("routing", [each for each in Routing if each is not Routing.CENTRAL_QUEUE])
def test_idle_pods_serve_lines_and_every_request_is_answered_once(routing: Routing) -> None:
    batch = LineBatch(2000, 10.0, 60.0)
    run = simulate(filled(batch, start=2, routing=routing), fixed(2), RARE)
    summary = work(run)
    assert (summary.answered, summary.in_time) == (2000, 1)
    assert sum(sum(pod.engine.fills.values()) for pod in run.fleet.all) == 2000
    arrived, latency = completed(run)
    assert sorted(arrived.tolist()) == RARE.tolist()
    assert latency.max() <= EXACT.seconds(32) + EXACT.seconds(32), "at most one batch is ahead"
    assert latency[arrived < 10].max() == pytest.approx(EXACT.seconds(1)), "none is before it"


def test_lines_are_as_fast_as_full_batches_allow() -> None:
    run = simulate(filled(LineBatch(10**6, 0.0, 60.0)), fixed(1), np.array([1.0, 59.0]))
    summary = work(run)
    assert summary.in_time == 0
    assert summary.answered == pytest.approx(60 * EACH, rel=0.03)
    assert summary.share > 0.99
    assert summary.gpu_hours == pytest.approx(run.fleet.gpu_seconds(run.end) / 3600, rel=0.01)


def test_requests_that_fill_every_batch_leave_no_place() -> None:
    arrivals = np.linspace(0.0, 60.0, int(60 * 1.5 * EACH))
    run = simulate(filled(LineBatch(1000, 20.0, 50.0)), fixed(1), arrivals)
    assert work(run).answered == 0


def test_the_batch_that_expires_first_is_served_first() -> None:
    late, soon = LineBatch(2000, 0.0, 500.0), LineBatch(2000, 0.0, 31.0)
    run = simulate(filled(late, soon), fixed(1), RARE)
    ends = {batch: ended for batch, _, ended in run.backlog.results()}
    assert ends[soon] <= 31.0 < ends[late] < 60.0


def test_the_law_adds_replicas_for_a_deadline_only_within_the_budget() -> None:
    batch = LineBatch(int(600 * 2.5 * EACH), 120.0, 720.0)
    arrivals = np.arange(0.0, 720.0, 0.1)
    law = law_named("CapacityAtObjective", EXACT)
    without = simulate(filled(batch), law, arrivals)
    budget = BatchWorkSpec(max_replicas=4)
    within = simulate(filled(batch, batch_work=budget), law, arrivals)
    assert work(without).in_time == 0
    assert work(within).in_time == 1
    assert 1 < max(tick.wanted for tick in within.moments) <= 1 + 4
    assert "BatchWork" in {tick.replicas_term for tick in within.moments}
    assert within.moments[-1].wanted == 1, "the replicas go when the batch has ended"
    assert outcome(within).attains


def test_more_pods_than_lines_in_flight_share_them() -> None:
    run = simulate(filled(LineBatch(10**6, 0.0, 30.0), start=64), fixed(64), RARE)
    sizes = {lines for pod in run.fleet.all for lines in pod.engine.fills.values()}
    assert sizes == {256 // (2 * 64)}


def test_a_central_queue_has_no_batch_work() -> None:
    with pytest.raises(ImpossibleScenario, match="use least-request"):
        replace(filled(LineBatch(1, 0.0, 1.0)), routing=Routing.CENTRAL_QUEUE)


@pytest.mark.parametrize(
    "text", ["", "5", "0,0,1", "5,2,1", "x,0,1", "5,0,inf", "5,-1,2", "5,0,1,2"]
)
def test_a_bad_batch_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=r"must (be|have)"):
        line_batch(text)
    assert line_batch("5,0,60") == LineBatch(5, 0.0, 60.0)
