"""From runs to the figures of CONTROL: the worst attainment, mean cost, the best single setting, gaps closed. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from tests.bench.control import plan
from tests.bench.control.jobs import CLAIRVOYANT, Result

Case = tuple[str, int, float]
"""Trace, seed, cold start's median."""


@dataclass(frozen=True, slots=True)
class Row:
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


def rows(results: Sequence[Result]) -> list[Row]:
    """Return one row per trace and law, in the order of the results."""
    groups: dict[tuple[str, str], list[Result]] = {}
    for one in results:
        if one.outcome is not None:
            groups.setdefault((one.job.trace, one.job.law), []).append(one)
    return [_row(trace, law, group) for (trace, law), group in groups.items()]


def _row(trace: str, law: str, group: list[Result]) -> Row:
    found = [one.outcome for one in group if one.outcome is not None]
    return Row(
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
    """Return per case the cheapest run of all that attains, the clairvoyant's schedules among them."""
    found: dict[Case, float] = {}
    for one in results:
        if one.outcome is not None and one.outcome.attainment >= plan.ATTAINED:
            found[case(one)] = min(one.outcome.gpu_hours, found.get(case(one), float("inf")))
    return found


def best_single_settings(results: Sequence[Result], laws: Sequence[str]) -> dict[str, str]:
    """Return per trace with a target the setting tuned on the other part (CONTROL): cheapest that attains there, and
    if it then misses on reporting, the next that attains on both; nothing where none does.
    """
    by_law: dict[str, list[Result]] = {law: [] for law in laws}
    for one in results:
        if one.job.law in by_law:
            by_law[one.job.law].append(one)
    found: dict[str, str] = {}
    for report, tune in (plan.PARTS, plan.PARTS[::-1]):
        fit = [law for law in laws if _attains(by_law[law], tune) and _attains(by_law[law], report)]
        if fit:
            best = min(fit, key=lambda law: _cost(by_law[law], tune))
            found |= dict.fromkeys(report, best)
    return found


def _attains(runs: Sequence[Result], traces: Sequence[str]) -> bool:
    used = [one for one in runs if one.job.trace in traces]
    return bool(used) and all(
        one.outcome is not None and one.outcome.attainment >= plan.ATTAINED for one in used
    )


def _cost(runs: Sequence[Result], traces: Sequence[str]) -> float:
    return geometric_mean(
        one.outcome.gpu_hours for one in runs if one.outcome is not None and one.job.trace in traces
    )


@dataclass(frozen=True, slots=True)
class Score:
    """The default law against the clairvoyant and baselines, over the traces that have a target."""

    attainment: float
    """The least of any trace and seed."""
    over_clairvoyant: float
    """Geometric mean of GPU-hours / clairvoyant's; NaN without a clairvoyant."""
    gaps_closed: dict[str, float]
    """By baseline: (baseline - ours) / (baseline - clairvoyant), mean over cases."""


def score(results: Sequence[Result], best: dict[str, str]) -> Score:
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
    gaps = {}
    for name in plan.GAP_TARGETS:
        shares = []
        for one in ours:
            law = best.get(one.job.trace) if name not in {r.job.law for r in aimed} else name
            cost, least = costs.get((law or "", case(one))), bound.get(case(one))
            if cost is not None and least is not None and cost > least:
                shares.append((cost - costs[plan.DEFAULT, case(one)]) / (cost - least))
        gaps[name] = sum(shares) / len(shares) if shares else float("nan")
    least_attained = min((one.outcome.attainment for one in ours if one.outcome), default=0.0)
    return Score(least_attained, geometric_mean(ratios), gaps)


def has_clairvoyant(results: Sequence[Result]) -> bool:
    """Return whether the bound was searched for."""
    return any(one.job.law == CLAIRVOYANT for one in results)
