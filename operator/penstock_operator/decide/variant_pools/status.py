"""Status, Events and figures of a pool with variants."""

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal

from penstock_api.conditions import Condition, ConditionStatus, merge
from penstock_api.types.decision import ScalingStatus
from penstock_api.types.status import AcceleratorStatus, CostStatus, PoolStatus
from penstock_api.types.variants import VariantStatus
from penstock_operator.decide.actions import EventNote, EventType
from penstock_operator.decide.cost.prices import money
from penstock_operator.decide.manifests.metadata import variants_selector
from penstock_operator.decide.plan import PlanFigures
from penstock_operator.decide.scaling.report.conditions import count_event, rfc3339
from penstock_operator.decide.scaling.report.status import batch_work_status
from penstock_operator.decide.spec import live_fields
from penstock_operator.decide.status.conditions.kstatus import is_stalled
from penstock_operator.decide.status.conditions.ready import READY
from penstock_operator.decide.status.pool import MAX_ACCELERATORS, MAX_BOUNDED, MAX_POLICIES, url
from penstock_operator.decide.variant_pools.conditions import replicas_text
from penstock_operator.decide.variant_pools.outcome import VariantsOutcome

MAX_SHOWN, MAX_TEXT = 16, 512
"""The schema's own bounds."""
MAX_FIGURE = 1e12
IGNORED = frozenset({live_fields.LOW_PERCENT, live_fields.MAX_PERCENT_PER_MINUTE})
"""Fields without an effect on a mix."""
HOURS_PER_DAY = 24


def variants_status(
    outcome: VariantsOutcome, conditions: tuple[Condition, ...], now: float
) -> PoolStatus:
    """Return the desired status: sums over the variants, and one entry for each."""
    pool, spec = outcome.view.pool, outcome.effective
    batch_work = batch_work_status(outcome.counts.batch_work)
    return PoolStatus(
        observed_generation=pool.generation,
        replicas=sum(each.pool.status.replicas or 0 for each in outcome.pools.values()),
        ready_replicas=outcome.ready,
        ready_replicas_of=f"{outcome.ready}/{outcome.desired}",
        desired_replicas=outcome.counts.recommended,
        selector=",".join(f"{key}={value}" for key, value in variants_selector(pool.uid).items()),
        model=pool.spec.model.name or pool.name,
        url=url(pool),
        scaling_mode=spec.scaling_mode.value,
        unset_scaling_mode=pool.status.unset_scaling_mode,
        accelerators=_accelerators(outcome),
        policies=spec.policies[:MAX_POLICIES],
        bounded=(*spec.bounded, *outcome.bounded)[:MAX_BOUNDED],
        effective=tuple(each for each in spec.reported if each.field not in IGNORED),
        conditions=merge(pool.status.conditions or (), conditions, pool.generation, rfc3339(now)),
        variants=_variants(outcome),
        variant_replicas=replicas_text(outcome)[:MAX_TEXT],
        prometheus_url=next(
            filter(None, (each.pool.status.prometheus_url for each in outcome.pools.values())), None
        ),
        scaling=None if batch_work is None else ScalingStatus(batch_work=batch_work),
        cost=_cost(outcome),
    )


def _variants(outcome: VariantsOutcome) -> tuple[VariantStatus, ...]:
    entries = []
    for name in {**dict.fromkeys(outcome.counts.replicas), **dict.fromkeys(outcome.pools)}:
        each = outcome.pools.get(name)
        status = None if each is None else each.pool.status
        price = outcome.prices.get(name)
        ready = outcome.condition_of(name, READY)
        entries.append(
            VariantStatus(
                name=name,
                replicas=outcome.counts.replicas.get(name, 0),
                ready_replicas=0 if status is None else status.ready_replicas or 0,
                cap=status.batch.cap if status is not None and status.batch else None,
                rows_per_second_per_replica=_figure(outcome.capacities.get(name)),
                per_replica_hour=None if price is None else money(Decimal(str(price))),
                reason=None if ready is None else ready.reason,
            )
        )
    return tuple(entries[:MAX_SHOWN])


def _figure(value: float | None) -> str | None:
    return None if value is None else f"{min(value, MAX_FIGURE):.1f}"


def _accelerators(outcome: VariantsOutcome) -> tuple[AcceleratorStatus, ...] | None:
    used: Counter[str] = Counter()
    for each in outcome.pools.values():
        for item in each.pool.status.accelerators or ():
            used[item.resource_name] += item.used
    listed = sorted(used.items(), key=lambda item: (-item[1], item[0]))[:MAX_ACCELERATORS]
    return tuple(AcceleratorStatus(resource_name=name, used=count) for name, count in listed)


def _cost(outcome: VariantsOutcome) -> CostStatus | None:
    """Return the sum of the variants' costs; unknown where one of them is."""
    costs = {
        name: each.pool.status.cost
        for name, each in outcome.pools.items()
        if each.pool.status.cost is not None
    }
    if not costs:
        return None
    known = {name: cost for name, cost in costs.items() if cost and cost.per_hour is not None}
    unknown = next((name for name in costs if name not in known), None)
    if unknown is not None:
        why = costs[unknown]
        return CostStatus(message=f"{unknown}: {why.message if why else ''}"[:1024])
    amounts = {name: Decimal(cost.per_hour or 0) for name, cost in known.items() if cost}
    total = sum(amounts.values(), Decimal(0))
    currency = next((cost.currency for cost in known.values() if cost), None)
    parts = " + ".join(f"{money(amount)} ({name})" for name, amount in amounts.items())
    shares = [
        Decimal(cost.batch_work_per_hour) for cost in known.values() if cost.batch_work_per_hour
    ]
    return CostStatus(
        currency=currency,
        per_hour=money(total),
        per_day=money(HOURS_PER_DAY * total),
        batch_work_per_hour=money(sum(shares, Decimal(0))) if shares else None,
        message=f"the sum of the variants: {parts}"[:1024],
    )


def variants_events(
    outcome: VariantsOutcome, conditions: Sequence[Condition]
) -> Iterator[EventNote]:
    """Yield the Events of this pass: changed counts, and conditions that began to fail."""
    for name, count in outcome.counts.replicas.items():
        each = outcome.pools.get(name)
        if each is not None:
            note = count_event(each.pool.spec.replicas, count, f"variant {name}")
            if note is not None:
                yield note
    before = {item.type: item for item in outcome.view.pool.status.conditions or ()}
    ready = next(item for item in conditions if item.type == READY)
    was = before.get(READY)
    failing = ready.reason in ("NameConflict", "ChildRejected")
    if failing and (was is None or was.reason != ready.reason):
        yield EventNote(EventType.WARNING, ready.reason, ready.message)
    if (
        was is not None
        and was.status is ConditionStatus.FALSE
        and ready.status is ConditionStatus.TRUE
    ):
        yield EventNote(EventType.NORMAL, "BecameReady", ready.message)


def variants_figures(outcome: VariantsOutcome, conditions: Sequence[Condition]) -> PlanFigures:
    """Return the values of the metrics; those that the variants' pools have are absent, so that sums count them once."""
    return PlanFigures(
        desired=outcome.counts.recommended,
        granted=outcome.desired,
        at_limit=outcome.counts.mix is not None and outcome.counts.mix.unmet > 0,
        signals_absent=bool(outcome.counts.blind),
        contested=False,
        stalled=is_stalled(conditions),
        demand=None,
        forecast=None,
        forecast_error=None,
        utilization=None,
        imbalance=None,
        startup_seconds=None,
        signal_age_seconds=None,
    )
