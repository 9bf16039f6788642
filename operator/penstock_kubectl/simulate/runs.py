"""Runs of every case of a pool without variants, and of what its law is compared with."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cache
from typing import Any

from rich.progress import Progress

from penstock_kubectl.simulate.cases import CaseLabels, ObservedLaw, PolicyCase, scenario
from penstock_kubectl.simulate.savings import (
    HPA,
    baseline_cap,
    baseline_law,
    fixed_scenario,
    free_scenario,
    lowest_count,
)
from penstock_kubectl.simulate.scenario import AlikePods, Comparison, RecordedWorld, Result
from penstock_operator.decide.scaling.law import Law
from penstock_simulator.outcome import outcome
from penstock_simulator.scenario import Scenario
from penstock_simulator.simulation import RunRecord, simulate

STEP_TOKENS = 512
"""Tokens of a step if the pool sets none, as in the runtime."""


def compare(
    world: RecordedWorld,
    pods: AlikePods,
    cases: Sequence[PolicyCase],
    progress: Progress,
    *,
    savings: bool,
) -> Comparison:
    """Run every case, and the baselines if savings are requested."""
    results = [
        result(case.labels, _run(world, case.name, case.law, _scenario(world, pods, case), progress), pods)
        for case in cases
    ]  # fmt: skip
    others = list[Result]()
    if savings:
        need = results[0].outcome.mean_replicas
        others += [
            result(labels, run, pods)
            for labels, run in _baselines(world, pods, cases[0], need, progress)
        ]
    return Comparison(world, pods, (*results, *others), len(others))


def result(labels: CaseLabels, run: RunRecord, pods: AlikePods) -> Result:
    """Return the result of a run with its cost."""
    summary, cost, batch = outcome(run), None, None
    if pods.price is not None:
        cost = Decimal(summary.gpu_hours) * pods.price.per_hour
        work = summary.batch_work
        batch = None if work is None else cost * Decimal(str(work.share))
    return Result(labels, run, summary, pods.devices, cost, batch)


def _baselines(
    world: RecordedWorld, pods: AlikePods, subject: PolicyCase, need: float, progress: Progress
) -> Iterator[tuple[CaseLabels, RunRecord]]:
    """Yield the runs of the lowest fixed count that suffices, or of the highest if none does, and of the HPA."""
    given, cap = _scenario(world, pods, subject), baseline_cap(subject)
    bounds = subject.effective.law

    @cache
    def fixed(count: int) -> RunRecord:
        within = fixed_scenario(given, subject, count)
        name = f"fixed-{count}"
        return _run(world, name, baseline_law(name, given, cap), within, progress)

    count = lowest_count(lambda count: outcome(fixed(count)).suffices, need, bounds.max_replicas)
    yield CaseLabels(f"fixed-{count}", "fixed count", f"{count}"), fixed(count)
    within = free_scenario(given, subject)
    run = _run(world, HPA, baseline_law(HPA, given, cap), within, progress)
    yield CaseLabels(HPA, "HPA", f"{bounds.min_replicas}-{bounds.max_replicas}"), run


def _scenario(world: RecordedWorld, pods: AlikePods, subject: PolicyCase) -> Scenario:
    given = scenario(subject, pods.service, pods.startup_p90, pods.start, world.seed)
    spec, text = subject.effective, pods.generation
    if text is not None:
        tokens = spec.max_batched_tokens or max(STEP_TOKENS, spec.law.size_max)
        text = replace(text, steps=replace(text.steps, step_tokens=tokens))
    return replace(in_world(given, world, subject), generation=text)


def in_world(given: Scenario, world: RecordedWorld, subject: PolicyCase) -> Scenario:
    """Return the scenario with the batch work of the world, and a warm-up that fits its length."""
    work = subject.effective.batch_work
    return replace(given.of_length(world.length), batches=world.batches, batch_work=work)


def _run(
    world: RecordedWorld, name: str, law: Law[Any], given: Scenario, progress: Progress
) -> RunRecord:
    length = world.length
    task = progress.add_task(name, total=length)
    watched = ObservedLaw(name, law, lambda passed: progress.update(task, completed=passed))
    record = simulate(given, watched, world.arrivals, world.length)
    progress.update(task, completed=length)
    return record
