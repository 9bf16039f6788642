"""Figures of docs/design/control-law.md#evaluation, computed from runs: attainment, cost, best settings, gaps closed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, nan

from tests.bench.control import plan
from tests.bench.control.jobs import CLAIRVOYANT, Result, attained

Case = tuple[str, int, float]
"""Trace, seed, median cold start in seconds."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """Figures of a law on a trace over all seeds and cold starts."""

    trace: str
    law: str
    attainment: float
    """Minimum over the runs."""
    worst_five_minutes: float
    gpu_hours: float
    """Geometric mean over the runs."""
    fluid_gpu_hours: float
    most_replicas: int
    reversals_per_hour: float


def case(result: Result) -> Case:
    """Return the run's parameters other than the law."""
    return result.job.trace, result.job.seed, result.job.cold_median


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN without values."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else float("nan")


def rows(results: Sequence[Result]) -> list[TraceRow]:
    """Return one row per trace and law, in the order of the results."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if result.outcome is not None:
            groups.setdefault((result.job.trace, result.job.law), []).append(result)
    return [_row(trace, law, group) for (trace, law), group in groups.items()]


def _row(trace: str, law: str, group: list[Result]) -> TraceRow:
    summaries = [result.outcome for result in group if result.outcome is not None]
    return TraceRow(
        trace=trace,
        law=law,
        attainment=min(summary.attainment for summary in summaries),
        worst_five_minutes=min(summary.worst_five_minutes for summary in summaries),
        gpu_hours=geometric_mean(summary.gpu_hours for summary in summaries),
        fluid_gpu_hours=geometric_mean(result.fluid_gpu_hours for result in group),
        most_replicas=max(summary.most_replicas for summary in summaries),
        reversals_per_hour=max(summary.reversals_per_hour for summary in summaries),
    )


def clairvoyant_costs(results: Sequence[Result]) -> dict[Case, float]:
    """Return the cost of the cheapest attaining run by case, for cases with a search for the clairvoyant schedule."""
    searched = {case(result) for result in results if result.job.law == CLAIRVOYANT}
    cheapest: dict[Case, float] = {}
    for result in results:
        if result.outcome is not None and attained(result) and case(result) in searched:
            cheapest[case(result)] = min(
                result.outcome.gpu_hours, cheapest.get(case(result), float("inf"))
            )
    return cheapest


def clairvoyant_by_trace(results: Sequence[Result]) -> dict[str, float]:
    """Return the geometric mean of the bound over each trace's cases."""
    costs = clairvoyant_costs(results)
    traces = sorted({trace for trace, _, _ in costs})
    return {t: geometric_mean(cost for key, cost in costs.items() if key[0] == t) for t in traces}


def best_single_settings(results: Sequence[Result], laws: Sequence[str]) -> dict[str, str]:
    """Return by trace the cheapest setting that attains on both parts, compared by its cost on the tuning part.

    See docs/design/control-law.md#evaluation. Traces for which no setting attains are left out.
    """
    cases_of = _cases(results)
    by_law: dict[str, list[Result]] = {law: [] for law in laws}
    for result in results:
        if result.job.law in by_law:
            by_law[result.job.law].append(result)
    best_laws: dict[str, str] = {}
    for report, tune in (plan.PARTS, plan.PARTS[::-1]):
        both = (*tune, *report)
        fit = [law for law in laws if all(_attains(by_law[law], trace, cases_of) for trace in both)]
        if fit:
            best = min(fit, key=lambda law: _cost(by_law[law], tune))
            best_laws |= dict.fromkeys(report, best)
    return best_laws


def oracle_settings(results: Sequence[Result], laws: Sequence[str]) -> dict[str, str]:
    """Return by trace the cheapest setting that attains on that trace itself."""
    cases_of, cheapest = _cases(results), {}
    for trace in plan.AIMED:
        runs = {law: [result for result in results if result.job.law == law] for law in laws}
        fit = [law for law in laws if _attains(runs[law], trace, cases_of)]
        if fit:
            cheapest[trace] = min(fit, key=lambda law: _cost(runs[law], (trace,)))
    return cheapest


def _cases(results: Sequence[Result]) -> dict[str, set[Case]]:
    """Return the cases of each trace; the default law runs all of them."""
    cases: dict[str, set[Case]] = {}
    for result in results:
        if result.job.law == plan.DEFAULT:
            cases.setdefault(result.job.trace, set()).add(case(result))
    return cases


def _attains(runs: Sequence[Result], trace: str, cases_of: dict[str, set[Case]]) -> bool:
    """Return whether a law attains in every case of a trace; runs are skipped only after a miss."""
    good = {case(result) for result in runs if result.job.trace == trace and attained(result)}
    return trace in cases_of and good == cases_of[trace]


def _cost(runs: Sequence[Result], traces: Sequence[str]) -> float:
    return geometric_mean(
        result.outcome.gpu_hours
        for result in runs
        if result.outcome is not None and result.job.trace in traces
    )


@dataclass(frozen=True, slots=True)
class LawScore:
    """The default law against the clairvoyant and baselines, over the traces that have a target."""

    attainment: float
    """Minimum over traces and seeds."""
    over_clairvoyant: float
    """Geometric mean of GPU-hours / clairvoyant's; NaN without a clairvoyant."""
    gaps_closed: dict[str, float]
    """By baseline: (baseline - ours) / (baseline - clairvoyant), mean over cases."""
    gaps_of_means: dict[str, float]
    """The same ratio of geometric means, which a case with a baseline near the bound does not dominate."""


def score(results: Sequence[Result], best: dict[str, str]) -> LawScore:
    """Return the figures that have targets."""
    aimed = [result for result in results if result.job.trace != plan.WITHOUT_TARGET]
    bound = clairvoyant_costs(aimed)
    costs = {
        (result.job.law, case(result)): result.outcome.gpu_hours
        for result in aimed
        if result.outcome is not None
    }
    ours = [
        result for result in aimed if result.job.law == plan.DEFAULT and result.outcome is not None
    ]
    ratios = [
        costs[plan.DEFAULT, case(result)] / bound[case(result)]
        for result in ours
        if case(result) in bound
    ]
    laws = {result.job.law for result in aimed}
    gaps, of_means = {}, {}
    for name in plan.GAP_TARGETS:
        triples = []
        for result in ours:
            law = name if name in laws else best.get(result.job.trace, "")
            cost, least = costs.get((law, case(result))), bound.get(case(result))
            if cost is not None and least is not None and cost > least:
                triples.append((cost, costs[plan.DEFAULT, case(result)], least))
        gaps[name] = _mean(
            [(cost - own_cost) / (cost - least) for cost, own_cost, least in triples]
        )
        cost, own_cost, least = (geometric_mean(triple[i] for triple in triples) for i in range(3))
        of_means[name] = (cost - own_cost) / (cost - least) if triples else nan
    least_attained = min(
        (result.outcome.attainment for result in ours if result.outcome), default=0.0
    )
    return LawScore(least_attained, geometric_mean(ratios), gaps, of_means)


@dataclass(frozen=True, slots=True)
class TargetFigure:
    """A measured figure and its target."""

    name: str
    measured: float
    sign: str
    target: float

    @property
    def met(self) -> bool:
        """Return whether the target is met; NaN (not measured) meets none."""
        return self.measured >= self.target if self.sign == ">=" else self.measured <= self.target


def target_figures(result: LawScore) -> list[TargetFigure]:
    """Return the figures with a target in docs/design/control-law.md#targets."""
    gaps = [
        TargetFigure(f"gap closed to {name}", result.gaps_closed[name], ">=", target)
        for name, target in plan.GAP_TARGETS.items()
    ]
    means = [
        TargetFigure(f"the same of means, {name}", result.gaps_of_means[name], ">=", target)
        for name, target in plan.GAP_TARGETS.items()
    ]
    return [
        TargetFigure("least attainment", result.attainment, ">=", plan.ATTAINED),
        TargetFigure("GPU-hours / clairvoyant", result.over_clairvoyant, "<=", plan.COST_TARGET),
        TargetFigure(
            "GPU-hours / clairvoyant, at least", result.over_clairvoyant, "<=", plan.ACCEPTABLE_COST
        ),
        *gaps,
        *means,
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan


@dataclass(frozen=True, slots=True)
class Change:
    """Cost and attainment with one changed default of the law."""

    name: str
    factor: float
    cost: float
    """Geometric mean of GPU-hours relative to the unchanged default."""
    attainment: float
    """Minimum over the runs."""


def changes(base: Sequence[Result], changed: Sequence[Result]) -> list[Change]:
    """Return one row per change, by decreasing effect; `base` has the same cases as each change."""
    plain = {
        case(result): result.outcome.gpu_hours for result in base if result.outcome is not None
    }
    groups: dict[tuple[str, float], list[Result]] = {}
    for result in changed:
        if result.job.changed is not None and case(result) in plain:
            groups.setdefault(result.job.changed, []).append(result)
    rows_of_changes = [
        Change(
            name,
            factor,
            geometric_mean(
                result.outcome.gpu_hours / plain[case(result)] for result in group if result.outcome
            ),
            min(result.outcome.attainment for result in group if result.outcome),
        )
        for (name, factor), group in groups.items()
    ]
    return sorted(rows_of_changes, key=lambda change: abs(log(change.cost)), reverse=True)
