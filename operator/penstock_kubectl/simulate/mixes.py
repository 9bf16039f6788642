"""Runs of every case of a pool with variants, and of what its mix is compared with."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from math import ceil
from typing import NamedTuple

from rich.progress import Progress

from penstock_api.types.batching import BatchingMode
from penstock_api.types.scaling import ScalingMode
from penstock_kubectl.errors import NotEnoughData
from penstock_kubectl.simulate.cases import CaseLabels, ObservedLaw, PolicyCase, scenario
from penstock_kubectl.simulate.fixed_mix import lowest_mix
from penstock_kubectl.simulate.runs import in_world
from penstock_kubectl.simulate.savings import HPA, baseline_law, free_scenario
from penstock_kubectl.simulate.scenario import Comparison, MixedPods, RecordedWorld, Result
from penstock_operator.decide.scaling.law import LawInput
from penstock_operator.decide.variant_pools.ranges import in_order, kept_within, replica_ranges
from penstock_operator.decide.variants.mix import VariantOffer
from penstock_operator.observed import BatchLoad
from penstock_simulator.outcome import outcome
from penstock_simulator.simulation import simulate
from penstock_simulator.variants.scenario import PoolVariant, VariantsScenario
from penstock_simulator.variants.simulation import (
    FixedMix,
    LawPolicy,
    MixMoment,
    Policy,
    simulate_variants,
)

NONE_MEASURED = "--savings: no variant is known to meet the objective on this history, so there is no mix to compare with"
NO_MIX = "--savings: no fixed mix within the bounds meets the objective on this history, with all batches in time"
Counts = Mapping[str, int]


class MixWorld(NamedTuple):
    """What is equal for all runs."""

    world: RecordedWorld
    pods: MixedPods
    progress: Progress


def compare(
    world: RecordedWorld,
    pods: MixedPods,
    cases: Sequence[PolicyCase],
    progress: Progress,
    *,
    savings: bool,
) -> Comparison:
    """Run every case, and the baselines if savings are requested.

    Raises:
        NotEnoughData: savings are requested, and no fixed mix meets the objective.
    """
    given, results, policies = MixWorld(world, pods, progress), list[Result](), list[GrantedMix]()
    for each in cases:
        within = _scenario(given, each)
        with_bar = _bar(given, each.name)
        known = pods if _batches(each) == _batches(cases[0]) else replace(pods, capacities={})
        policies.append(GrantedMix(each, within, known, with_bar))
        results.append(_run(given, policies[-1].labels, policies[-1], within))
        with_bar(world.length)
    others = [*_baselines(given, cases[0], policies[0])] if savings else []
    return Comparison(world, pods, (*results, *others), len(others))


def _batches(case: PolicyCase) -> tuple[object, ...]:
    """Return the settings with which a capacity was measured; after a change of these the operator measures again."""
    law = case.effective.law
    return law.objective_milliseconds, law.late, law.size_min, law.size_max


class GrantedMix(LawPolicy):
    """The operator's decision on the mix, restricted by the pool's two modes."""

    def __init__(
        self,
        case: PolicyCase,
        within: VariantsScenario,
        pods: MixedPods,
        report: Callable[[float], None],
    ) -> None:
        """`report` is called with the seconds since the start, every tick."""
        scheduled = any(policy.spec.schedules for policy in case.policies)
        floor = case.floor if scheduled else None
        super().__init__(within, pods.capacities, _frozen_caps(case, pods), floor)
        self._counts = None if case.moves else _given_counts(case, pods)
        self._report = report
        self.name = case.name
        self.labels = case.labels
        """The case as the table shows it."""
        if self._counts is not None:
            self.labels = case.labels._replace(replicas=mix_text(self._counts))

    def decide(
        self, observed: Mapping[str, LawInput], batches: tuple[BatchLoad, ...], now: float
    ) -> MixMoment:
        """Return the decision of a tick; the counts stay unless the law moves them."""
        self._report(now)
        moment = super().decide(observed, batches, now)
        return moment if self._counts is None else replace(moment, counts=self._counts)


def mix_text(counts: Counts) -> str:
    """Return a mix as `1 gpu, 4 cpu`."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "0"


def _frozen_caps(case: PolicyCase, pods: MixedPods) -> Counts:
    """Return the caps that no law moves: `size.max` in mode Fixed, the published ones in Recommend."""
    spec, law = case.effective, case.effective.law
    if spec.batching_mode is BatchingMode.AUTO:
        return {}
    if spec.batching_mode is BatchingMode.FIXED:
        return {each.name: law.size_max for each in pods.variants}
    return {name: min(max(cap, law.size_min), law.size_max) for name, cap in pods.caps.items()}


def _given_counts(case: PolicyCase, pods: MixedPods) -> Counts:
    """Return the counts of a pool that is not in mode Auto: the requested ones in Hold, else `spec.replicas` in order."""
    specs, bound = case.subject.pool.spec.variants or (), case.effective.replicas_bound
    if case.effective.scaling_mode is ScalingMode.HOLD:
        frozen = {each.name: pods.requested.get(each.name, each.start_replicas) for each in pods.variants}  # fmt: skip
        return kept_within(frozen, specs, bound)
    given = in_order(specs, case.effective.replicas, bound)
    return {each.name: given[each.name] for each in pods.variants}


def _scenario(given: MixWorld, case: PolicyCase) -> VariantsScenario:
    pods, most = given.pods, case.effective.law.max_replicas
    first = pods.variants[0]
    world = scenario(case, first.service, pods.startups_p90[first.name], 1, given.world.seed)
    world = replace(in_world(world, given.world, case), settings=case.effective.law)
    fixed = None if case.moves else _given_counts(case, pods)
    ranges = replica_ranges(case.subject.pool.spec.variants or (), case.effective.replicas_bound)
    variants = tuple(
        replace(
            each,
            least=ranges[each.name].least,
            most=min(each.most, most),
            start_replicas=each.start_replicas if fixed is None else fixed[each.name],
        )
        for each in pods.variants
    )
    return VariantsScenario(world, variants)


def _run(given: MixWorld, labels: CaseLabels, policy: Policy, within: VariantsScenario) -> Result:
    done = simulate_variants(within, policy, given.world.arrivals, given.world.length)
    hours, pods = done.replica_hours, given.pods
    devices = sum(number * pods.devices[name] for name, number in hours.items())
    priced = pods.currency is not None
    return Result(
        labels,
        done.run,
        done.summary,
        devices / max(sum(hours.values()), 1e-9),
        Decimal(done.cost) if priced else None,
        Decimal(done.batch_cost) if priced and given.world.batches else None,
        hours,
    )


def _baselines(given: MixWorld, case: PolicyCase, law: GrantedMix) -> Iterator[Result]:
    """Yield the runs of the cheapest fixed mix found that suffices, and of an HPA on the variant with which it is cheapest.

    Their pods run batches up to the published cap, else that of the simulated law.
    """
    caps = {**law.caps, **given.pods.caps}
    offers = [
        VariantOffer(each.name, capacity, _price(given.pods, each), 0, each.most, 0.0)
        for each in _scenario(given, case).variants
        if (capacity := law.capacities.get(each.name)) and each.name in caps
    ]
    if not offers:
        raise NotEnoughData(NONE_MEASURED)
    world, most = given.world, case.effective.law.max_replicas
    rate, known = len(world.arrivals) / world.length, dict[tuple[int, ...], Result]()

    def fixed(counts: Counts) -> Result:
        key = tuple(counts.values())
        if key not in known:
            known[key] = _fixed(given, case, counts, caps)
        return known[key]

    mix = lowest_mix(lambda counts: fixed(counts).outcome.suffices, offers, rate, most)
    if mix is None:
        raise NotEnoughData(NO_MIX)
    yield fixed(mix)
    able = [each for each in offers if each.most * (each.capacity or 0.0) >= rate] or offers
    scaled = [_by_hpa(given, case, each, caps, offers) for each in able]
    yield min(scaled, key=lambda run: (not run.outcome.suffices, run.cost or run.device_hours))


def _price(pods: MixedPods, variant: PoolVariant) -> float:
    """Return the price of a replica-hour; its device hours unless every variant has a price."""
    if pods.currency is None or variant.per_hour is None:
        return float(pods.devices[variant.name])
    return variant.per_hour


def _fixed(given: MixWorld, case: PolicyCase, counts: Counts, caps: Counts) -> Result:
    """Return the run of a fixed mix, with all its replicas Ready at the start."""
    within = _scenario(given, case)
    whole = {each.name: counts.get(each.name, 0) for each in within.variants}
    variants = tuple(replace(each, start_replicas=whole[each.name]) for each in within.variants)
    weights = {each.name: each.service.capacity(caps.get(each.name, 1)) for each in variants}
    name = f"fixed: {mix_text(whole)}"
    policy = FixedMix(MixMoment(whole, caps, weights), name)
    bar = _bar(given, name)
    result = _run(
        given,
        CaseLabels(name, "fixed mix", mix_text(whole)),
        policy,
        VariantsScenario(within.world, variants),
    )
    bar(given.world.length)
    return result


def _by_hpa(
    given: MixWorld, case: PolicyCase, offer: VariantOffer, caps: Counts, offers: Sequence[VariantOffer]
) -> Result:  # fmt: skip
    """Return the run of an HPA at 70 % on one variant alone, which starts with the capacity of the pool's replicas."""
    pods, name = given.pods, f"{HPA} on {offer.name}"
    variant = next(each for each in pods.variants if each.name == offer.name)
    served = {each.name: each.capacity or 0.0 for each in offers}
    ready = sum(each.start_replicas * served.get(each.name, 0.0) for each in pods.variants)
    start = max(ceil(ready / (offer.capacity or 1.0)), 1)
    world = scenario(case, variant.service, pods.startups_p90[offer.name], start, given.world.seed)
    within = free_scenario(in_world(world, given.world, case), case)
    settings = replace(within.settings, max_replicas=offer.most)
    low = min(within.settings.min_replicas, offer.most)
    within = replace(
        within,
        settings=replace(settings, min_replicas=low),
        start_replicas=min(max(start, low), offer.most),
    )
    bar = _bar(given, name)
    watched = ObservedLaw(name, baseline_law(HPA, within, caps[offer.name]), bar)
    run = simulate(within, watched, given.world.arrivals, given.world.length)
    bar(given.world.length)
    summary, cost, batch = outcome(run), None, None
    if pods.currency is not None:
        cost = Decimal(summary.gpu_hours) * Decimal(str(variant.per_hour))
        work = summary.batch_work
        batch = None if work is None else cost * Decimal(str(work.share))
    labels = CaseLabels(name, "HPA", f"{low}-{offer.most} {offer.name}")
    hours = {offer.name: summary.gpu_hours}
    return Result(labels, run, summary, pods.devices[offer.name], cost, batch, hours)


def _bar(given: MixWorld, name: str) -> Callable[[float], None]:
    """Return what reports the seconds that a run has passed."""
    task = given.progress.add_task(name, total=given.world.length)
    return lambda passed: given.progress.update(task, completed=passed)
