"""From runs to the figures of docs/design/control-law.md#evaluation: the worst attainment, mean cost, the best single setting, gaps closed. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log, nan

from tests.bench.control import plan
from tests.bench.control.jobs import CLAIRVOYANT, Result, attained

Case = tuple[str, int, float]
"""Trace, seed, cold start's median."""


@dataclass(frozen=True, slots=True)
class TraceRow:
    """One law on one trace, over seeds and cold starts."""

    trace: str
    law: str
    attainment: float
    """The least."""
    worst_five_minutes: float
    gpu_hours: float
    """The geometric mean."""
    fluid_gpu_hours: float
    most_replicas: int
    reversals_per_hour: float


def case(result: Result) -> Case:
    """Return what the run had in common with other laws' runs."""
    return result.job.trace, result.job.seed, result.job.cold_median


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive values; NaN of none."""
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else float("nan")


def rows(results: Sequence[Result]) -> list[TraceRow]:
    """Return one row per trace and law, in the order of the results."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        if one.outcome is not None:
            groups.setdefault((one.job.trace, one.job.law), []).append(one)
    return [_row(trace, law, group) for (trace, law), group in groups.items()]


def _row(trace: str, law: str, group: list[Result]) -> TraceRow:
    found = [one.outcome for one in group if one.outcome is not None]
    return TraceRow(
        trace=trace,
        law=law,
        attainment=min(one.attainment for one in found),
        worst_five_minutes=min(one.worst_five_minutes for one in found),
        gpu_hours=geometric_mean(one.gpu_hours for one in found),
        fluid_gpu_hours=geometric_mean(one.fluid_gpu_hours for one in group),
        most_replicas=max(one.most_replicas for one in found),
        reversals_per_hour=max(one.reversals_per_hour for one in found),
    )


def clairvoyant_costs(results: Sequence[Result]) -> dict[Case, float]:
    """Return per case the cheapest run of all that attains, the clairvoyant's schedules among them; none where none was searched."""
    searched = {case(one) for one in results if one.job.law == CLAIRVOYANT}
    found: dict[Case, float] = {}
    for one in results:
        if one.outcome is not None and attained(one) and case(one) in searched:
            found[case(one)] = min(one.outcome.gpu_hours, found.get(case(one), float("inf")))
    return found


def clairvoyant_by_trace(results: Sequence[Result]) -> dict[str, float]:
    """Return the geometric mean of the bound over each trace's cases."""
    costs = clairvoyant_costs(results)
    traces = sorted({trace for trace, _, _ in costs})
    return {t: geometric_mean(cost for one, cost in costs.items() if one[0] == t) for t in traces}


def best_single_settings(results: Sequence[Result], laws: Sequence[str]) -> dict[str, str]:
    """Return per trace with a target the setting tuned on the other part (docs/design/control-law.md#evaluation): cheapest that attains there, and
    if it then misses on reporting, the next that attains on both; nothing where none does.
    """
    cases_of = _cases(results)
    by_law: dict[str, list[Result]] = {law: [] for law in laws}
    for one in results:
        if one.job.law in by_law:
            by_law[one.job.law].append(one)
    found: dict[str, str] = {}
    for report, tune in (plan.PARTS, plan.PARTS[::-1]):
        both = (*tune, *report)
        fit = [law for law in laws if all(_attains(by_law[law], one, cases_of) for one in both)]
        if fit:
            best = min(fit, key=lambda law: _cost(by_law[law], tune))
            found |= dict.fromkeys(report, best)
    return found


def oracle_settings(results: Sequence[Result], laws: Sequence[str]) -> dict[str, str]:
    """Return per trace with a target the cheapest setting that attains on it, as if it had been known beforehand."""
    cases_of, found = _cases(results), {}
    for trace in plan.AIMED:
        runs = {law: [one for one in results if one.job.law == law] for law in laws}
        fit = [law for law in laws if _attains(runs[law], trace, cases_of)]
        if fit:
            found[trace] = min(fit, key=lambda law: _cost(runs[law], (trace,)))
    return found


def _cases(results: Sequence[Result]) -> dict[str, set[Case]]:
    """Return the cases of each trace, which the default law ran all of."""
    found: dict[str, set[Case]] = {}
    for one in results:
        if one.job.law == plan.DEFAULT:
            found.setdefault(one.job.trace, set()).add(case(one))
    return found


def _attains(runs: Sequence[Result], trace: str, cases_of: dict[str, set[Case]]) -> bool:
    """Return whether a law attains in every case of a trace; a run left out is one that would not matter."""
    good = {case(one) for one in runs if one.job.trace == trace and attained(one)}
    return trace in cases_of and good == cases_of[trace]


def _cost(runs: Sequence[Result], traces: Sequence[str]) -> float:
    return geometric_mean(
        one.outcome.gpu_hours for one in runs if one.outcome is not None and one.job.trace in traces
    )


@dataclass(frozen=True, slots=True)
class LawScore:
    """The default law against the clairvoyant and baselines, over the traces that have a target."""

    attainment: float
    """The least of any trace and seed."""
    over_clairvoyant: float
    """Geometric mean of GPU-hours / clairvoyant's; NaN without a clairvoyant."""
    gaps_closed: dict[str, float]
    """By baseline: (baseline - ours) / (baseline - clairvoyant), mean over cases."""
    gaps_of_means: dict[str, float]
    """The same of geometric means over these cases: no case counts for much whose baseline is near the bound."""


def score(results: Sequence[Result], best: dict[str, str]) -> LawScore:
    """Return the figures that have targets."""
    aimed = [one for one in results if one.job.trace != plan.WITHOUT_TARGET]
    bound = clairvoyant_costs(aimed)
    costs = {
        (one.job.law, case(one)): one.outcome.gpu_hours for one in aimed if one.outcome is not None
    }
    ours = [one for one in aimed if one.job.law == plan.DEFAULT and one.outcome is not None]
    ratios = [
        costs[plan.DEFAULT, case(one)] / bound[case(one)] for one in ours if case(one) in bound
    ]
    laws = {one.job.law for one in aimed}
    gaps, of_means = {}, {}
    for name in plan.GAP_TARGETS:
        triples = []
        for one in ours:
            law = name if name in laws else best.get(one.job.trace, "")
            cost, least = costs.get((law, case(one))), bound.get(case(one))
            if cost is not None and least is not None and cost > least:
                triples.append((cost, costs[plan.DEFAULT, case(one)], least))
        gaps[name] = _mean([(cost - mine) / (cost - least) for cost, mine, least in triples])
        cost, mine, least = (geometric_mean(one[i] for one in triples) for i in range(3))
        of_means[name] = (cost - mine) / (cost - least) if triples else nan
    least_attained = min((one.outcome.attainment for one in ours if one.outcome), default=0.0)
    return LawScore(least_attained, geometric_mean(ratios), gaps, of_means)


@dataclass(frozen=True, slots=True)
class TargetFigure:
    """A measured figure with its target beside it."""

    name: str
    measured: float
    sign: str
    target: float

    @property
    def met(self) -> bool:
        """Return whether the target is met; NaN, not measured, meets none."""
        return self.measured >= self.target if self.sign == ">=" else self.measured <= self.target


def beside_targets(found: LawScore) -> list[TargetFigure]:
    """Return the targets of docs/design/control-law.md#targets, each with its figure."""
    gaps = [
        TargetFigure(f"gap closed to {name}", found.gaps_closed[name], ">=", target)
        for name, target in plan.GAP_TARGETS.items()
    ]
    means = [
        TargetFigure(f"the same of means, {name}", found.gaps_of_means[name], ">=", target)
        for name, target in plan.GAP_TARGETS.items()
    ]
    return [
        TargetFigure("least attainment", found.attainment, ">=", plan.ATTAINED),
        TargetFigure("GPU-hours / clairvoyant", found.over_clairvoyant, "<=", plan.COST_TARGET),
        TargetFigure(
            "GPU-hours / clairvoyant, at least", found.over_clairvoyant, "<=", plan.COST_LEAST
        ),
        *gaps,
        *means,
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else nan


@dataclass(frozen=True, slots=True)
class Change:
    """What became of cost and attainment when one default of the law was another."""

    name: str
    factor: float
    cost: float
    """Geometric mean of GPU-hours over those with the default as it is."""
    attainment: float
    """The least."""


def changes(base: Sequence[Result], changed: Sequence[Result]) -> list[Change]:
    """Return one row a change, the dearest first; `base` has the same cases as each change."""
    plain = {case(one): one.outcome.gpu_hours for one in base if one.outcome is not None}
    groups: dict[tuple[str, float], list[Result]] = {}
    for one in changed:
        if one.job.changed is not None and case(one) in plain:
            groups.setdefault(one.job.changed, []).append(one)
    found = [
        Change(
            name,
            factor,
            geometric_mean(
                one.outcome.gpu_hours / plain[case(one)] for one in group if one.outcome
            ),
            min(one.outcome.attainment for one in group if one.outcome),
        )
        for (name, factor), group in groups.items()
    ]
    return sorted(found, key=lambda one: abs(log(one.cost)), reverse=True)
