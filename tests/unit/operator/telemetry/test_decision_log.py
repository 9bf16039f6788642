"""The decision log: one JSON line a decision, with the pool, its observations, terms and results."""

import json
import logging
from collections.abc import Iterator

import pytest

from penstock_api.log_format import JsonFormatter
from penstock_operator.decide.plan import PoolPlan
from penstock_operator.reconcile_state import PoolState
from penstock_operator.reconciler import reporter
from penstock_operator.telemetry import logs
from tests.unit.operator.decide.scaling.test_checkpoint import ticks, working
from tests.unit.operator.decide.world import World, settled


@pytest.fixture
def state() -> Iterator[PoolState]:
    pool_state = PoolState()
    yield pool_state
    reporter.forget_pool(pool_state)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    formatter = JsonFormatter(logs.of)
    return [
        json.loads(formatter.format(record))
        for record in caplog.records
        if record.name == "penstock_operator.decisions"
    ]


def report(plan: PoolPlan, world: World, state: PoolState) -> None:
    reporter.report_decision(plan, world.view(), state)


def test_an_edit_logs_one_line_and_an_unchanged_decision_none(
    caplog: pytest.LogCaptureFixture, state: PoolState
) -> None:
    caplog.set_level(logging.INFO)
    world = settled()
    report(world.settle(), world, state)
    report(world.settle(), world, state)
    assert len(lines(caplog)) == 1

    world.edit_spec(replicas=3, batching={"mode": "Fixed", "size": {"max": 7}})
    plan = world.settle()
    report(plan, world, state)

    line = lines(caplog)[-1]
    assert plan.limits is not None
    assert (line["namespace"], line["pool"], line["audit"]) == ("team-a", "chat", "decision")
    assert line["seen"] == {
        "pods": 1,
        "readyPods": 1,
        "signals": "None",
        "problem": world.view().signals.problem,
    }
    done = {"replicas": 3, "cap": 7, "generation": plan.limits.generation}
    assert done.items() <= line["done"].items()  # type: ignore[attr-defined]
    report(world.settle(), world, state)
    assert [each["done"] for each in lines(caplog)].count(line["done"]) == 1


def test_a_decision_of_the_law_logs_its_terms_and_observations(
    caplog: pytest.LogCaptureFixture, state: PoolState
) -> None:
    caplog.set_level(logging.INFO)
    world = working()
    plan = ticks(world, 12)[-1]
    report(plan, world, state)

    (line,) = lines(caplog)
    decision = plan.status.last_decision
    assert decision is not None
    seen, term, done = (dict(line[key]) for key in ("seen", "term", "done"))  # type: ignore[call-overload]
    assert {"demandRowsPerSecond", "forecastRowsPerSecond", "effectiveUtilization"} <= seen.keys()
    assert seen["readyPods"] == len(world.pods)
    assert line["wanted"] == {"replicas": plan.figures.desired, "cap": decision.cap}
    demands = {demand.term: demand.replicas for demand in decision.asked or ()}
    assert "Forecast" in demands
    terms = {"replicas": decision.replicas_term, "cap": decision.cap_term, "asked": demands}
    assert term == term | terms
    assert done["law"] == decision.acted
    assert line["message"] == f"decided: {decision.message}"
