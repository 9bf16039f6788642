"""A fleet of settled pools with three Ready pods each, under a varying load, as the input of a pass."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

from penstock_api.pod_contract import CurveSums
from penstock_operator.decide.plan import Plan
from penstock_operator.decide.planning.planner import make_plan
from penstock_operator.decide.planning.planner_state import PlannerState
from penstock_operator.decide.quota_ledger import QuotaLedger
from penstock_operator.decide.scaling.capacity_at_objective.demand.forecast_errors import (
    MAX_ERRORS,
    ForecastError,
    ForecastErrors,
)
from penstock_operator.decide.scaling.decision import ScalingState
from penstock_operator.observed import (
    Acknowledgement,
    Observed,
    PodSample,
    PolicyObject,
    PoolLabels,
    PoolSignals,
    SignalSource,
    UtilizationSource,
)
from tests.unit.operator.decide.world import CONFIG, NOW, World, pod, policy, pool

PODS = 3
TICK = 5.0
SCRAPES = 3
"""Scrapes of each pod in the answer to one round."""
A, C, ROWS = 0.1, 0.01, 16.0
"""t(b) = a + c*b in seconds, and the mean batch."""
BOUNDS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.65, 0.8, 1.0, math.inf)
SPEC: dict[str, Any] = {
    "replicas": PODS,
    "objectives": [{"metric": "RequestLatency", "percentile": "P99", "milliseconds": 1000}],
    "scaling": {"mode": "Auto", "algorithm": "CapacityAtObjective", "maxReplicas": 12},
}


def policies(pools: int) -> tuple[PolicyObject, ...]:
    """Return two policies over all pools: defaults and bounds, and a budget that is too small for them."""
    budget = {"resourceName": "nvidia.com/gpu", "count": max(PODS * pools - 1, 1)}
    return (
        policy("bounds", priority=1, bounds={"replicas": {"max": 8}}),
        policy("budget", gpuBudgets=[{**budget, "share": "Weighted"}]),
    )


@dataclass
class Fleet:
    """All pools of one operator, on fake time."""

    worlds: list[World]
    policies: tuple[PolicyObject, ...]
    states: dict[str, object]
    now: float
    ledger: QuotaLedger = field(default_factory=QuotaLedger)

    @classmethod
    def of(cls, number: int) -> "Fleet":
        """Return a fleet of `number` settled pools."""
        worlds = [_settled(index) for index in range(number)]
        states = {world.pool.uid: world.states[world.pool.uid] for world in worlds}
        return cls(worlds, policies(number), states, NOW + 60)

    def observed(self) -> Observed:
        """Return what the next tick's pass reads; time moves on by a tick."""
        self.now += TICK
        views = []
        for number, world in enumerate(self.worlds):
            world.signals = signals(number, world, self.now)
            views.append(world.view())
        return Observed(
            pools=tuple(views),
            policies=self.policies,
            policies_readable=True,
            lease_transitions={},
            control_keys={"k1": "AAAA"},
            all_pools=tuple(
                PoolLabels(view.pool.uid, view.pool.namespace, {}, view.pool.labels)
                for view in views
            ),
        )

    def decide(self, observed: Observed) -> Plan:
        """Return the pass's plan, and store the state for the next pass."""
        plan = make_plan(observed, self.states, CONFIG, self.now, self.ledger)
        self.ledger = plan.ledger
        self.states = {planned.uid: planned.law_state for planned in plan.pools}
        return plan

    def grow_old(self) -> None:
        """Give each pool's forecaster an hour of forecast errors, as in an operator that has run for a while."""
        for uid, state in self.states.items():
            assert isinstance(state, PlannerState)
            assert isinstance(state.scaling, ScalingState)
            law = state.scaling.law
            misses = ForecastErrors.of(
                ForecastError(100 + 9 * math.cos(index), 5 * math.sin(index * 2.4))
                for index in range(MAX_ERRORS)
            )
            law = law._replace(forecaster=law.forecaster._replace(errors=misses))
            self.states[uid] = state._replace(scaling=state.scaling._replace(law=law))

    def settle(self, plan: Plan) -> None:
        """Apply a plan: statuses, limits, and acknowledgements of pods."""
        for world, planned in zip(self.worlds, plan.pools, strict=True):
            for write in planned.writes:
                world.store(write)
            for push in planned.pushes:
                world.acknowledgements[push.pod_uid] = Acknowledgement(push.update.generation, 64)
            world.pool = replace(world.pool, status=planned.status)


def _settled(number: int) -> World:
    name = f"pool-{number}"
    world = World(pool=pool(name, f"uid-{number}", **SPEC))
    world.settle()
    world.pods = tuple(
        pod(f"{name}-{index}", ip=f"10.0.0.{index + 1}", created=NOW - 600, revision=world.revision)
        for index in range(PODS)
    )
    world.settle()
    world.settle()
    return world


def signals(number: int, world: World, now: float) -> PoolSignals:
    """Return a round of samples: counters since the beginning, each pool's load at its own phase."""
    samples = tuple(
        _sample(pod_view.uid, number, now - TICK * age)
        for pod_view in world.pods
        for age in reversed(range(SCRAPES))
    )
    return PoolSignals(SignalSource.PROMETHEUS, samples, queried_at=now)


def _sample(uid: str, number: int, time: float) -> PodSample:
    passed = time - NOW + 600
    rows = 35 * passed + 900 * (1 - math.cos(passed / 90 + number))
    batches = rows / ROWS
    spread = 20.0
    squares = batches * (ROWS**2 + spread)
    seconds = A * batches + C * rows
    joint = A * rows + C * squares
    seconds_squared = A * A * batches + 2 * A * C * rows + C * C * squares
    by_size = [0.0] * 12
    for rows_in_batch in (ROWS - spread**0.5, ROWS + spread**0.5):
        by_size += [batches / 2, batches / 2 * rows_in_batch, batches / 2 * (A + C * rows_in_batch)]
    place = (A + C * ROWS) * 1.3
    buckets = tuple((bound, batches if bound >= place else 0.0) for bound in BOUNDS)
    return PodSample(
        uid=uid,
        time=time,
        waiting=float(int(passed) % 7),
        running=ROWS,
        requests_received=rows,
        rows_received=rows,
        curve=CurveSums(
            batches=batches,
            cost_units=rows,
            cost_units_squared=squares,
            seconds=seconds,
            cost_unit_seconds=joint,
            seconds_squared=seconds_squared,
            by_size=tuple(by_size),
        ),
        batch_duration_buckets=buckets,
        out_of_memory_splits=0.0,
        batch_cap=32.0,
        batch_cap_bound=64.0,
        gpu_utilization=0.8,
        duty_source=UtilizationSource.NVML,
        requests_settled=rows,
        request_duration_buckets=tuple((bound, rows if bound >= 0.8 else 0.0) for bound in BOUNDS),
    )
