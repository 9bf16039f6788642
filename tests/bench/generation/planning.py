"""Time to plan and to complete a step with 64 running and 10,000 waiting sequences, by discipline."""

from dataclasses import dataclass
from statistics import median
from time import perf_counter as now

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.continuous.limits import (
    GenerationInfo,
    GenerationLimits,
    KVSpec,
    Preemption,
)
from penstock_runtime.engine.continuous.sampling_params import SamplingParams
from penstock_runtime.engine.continuous.scheduler.scheduler import TokenScheduler
from penstock_runtime.engine.continuous.sequence import RequestSpec, Sequence
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan

RUNNING, WAITING, STEPS = 64, 10_000, 300


@dataclass(frozen=True)
class PlanningTime:
    """Microseconds to plan and to complete one step."""

    discipline: str
    plan_median: float
    plan_p99: float
    settle_median: float


def measure(discipline: Discipline) -> PlanningTime:
    """Return the times of steps in which all slots are taken and every sequence decodes."""
    spec = KVSpec(block_tokens=16, blocks=8192, host_blocks=0, block_bytes=1)
    info = GenerationInfo("none", "none", "none", "none", 2, 4096, spec, (), RUNNING, "1")
    limits = GenerationLimits(1, RUNNING, 512, 10**6, discipline, Preemption.LOWER_PRIORITY)
    scheduler = TokenScheduler(info, limits)
    for uid in range(RUNNING):
        scheduler.add(_sequence(uid, 0.0), 0.0)
    for _ in range(RUNNING):
        _settle(scheduler, _planned(scheduler))
    for uid in range(RUNNING, RUNNING + WAITING):
        scheduler.add(_sequence(uid, 1.0), 1.0)
    plans, settles = [], []
    for _ in range(STEPS):
        began = now()
        plan = _planned(scheduler)
        planned = now()
        _settle(scheduler, plan)
        plans.append(planned - began)
        settles.append(now() - planned)
    if scheduler.report().running != RUNNING:
        raise RuntimeError("not all slots were taken")
    last = sorted(plans)[int(0.99 * STEPS)]
    return PlanningTime(discipline, 1e6 * median(plans), 1e6 * last, 1e6 * median(settles))


def _sequence(uid: int, arrived: float) -> Sequence:
    spec = RequestSpec(
        id=str(uid),
        prompt_tokens=32,
        params=SamplingParams(max_tokens=1000),
        seed=0,
        arrived=arrived,
        priority=5,
        tenant=f"t{uid % 8}",
        salt=str(uid),
    )
    return Sequence(uid, spec, 0, [1] * 32)


def _planned(scheduler: TokenScheduler) -> StepPlan:
    plan = scheduler.plan(2.0)
    if not isinstance(plan, StepPlan):
        raise RuntimeError("there was nothing to plan")
    return plan


def _settle(scheduler: TokenScheduler, plan: StepPlan) -> None:
    for row in plan.rows:
        if row.samples:
            row.sequence.ids.append(1)
    scheduler.settle(plan)
