"""Conditions of a pool with variants: its own, and the worst of its variants'."""

from collections.abc import Iterator, Sequence

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_api.types.scaling import ScalingMode
from penstock_operator.decide.route import RouteStep
from penstock_operator.decide.scaling.report.conditions import scaling_condition
from penstock_operator.decide.status.conditions.kstatus import RECONCILING, STALLED
from penstock_operator.decide.status.conditions.progress import PROGRESSING, alteration
from penstock_operator.decide.status.conditions.ready import READY, SCALED_TO_ZERO, rejection
from penstock_operator.decide.status.conditions.routed import routed
from penstock_operator.decide.variant_pools.outcome import VariantsOutcome
from penstock_operator.decide.variant_pools.writes import stale_pools

TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
SPLIT = "SplitByCapacity"
GOOD_WHEN_TRUE = ("UpToDate", "LimitsApplied", "MetricsAvailable", "PolicyApplied")
GOOD_WHEN_FALSE = ("BudgetLimited",)


def variants_conditions(outcome: VariantsOutcome) -> tuple[Condition, ...]:
    """Return every condition of the pool, in display order."""
    stale = stale_pools(outcome.view)
    ready, changing = _ready(outcome), _progressing(outcome, stale)
    return (
        ready,
        changing,
        *_kstatus(outcome, ready, changing, stale),
        *_up_to_date(outcome),
        _scaling(outcome),
        *_worst(outcome, GOOD_WHEN_TRUE[1:], FALSE),
        *_worst(outcome, GOOD_WHEN_FALSE, TRUE),
        *routed(outcome.gateway, outcome.view.gateway),
        _split(outcome),
    )


def replicas_text(outcome: VariantsOutcome) -> str:
    """Return the Ready replicas of the requested ones of each variant, such as `a100 2/2, cpu 0/1`."""
    return ", ".join(
        f"{name} {_ready_pods(outcome, name)}/{count}"
        for name, count in outcome.counts.replicas.items()
    )


def _ready_pods(outcome: VariantsOutcome, name: str) -> int:
    each = outcome.pools.get(name)
    return 0 if each is None else each.pool.status.ready_replicas or 0


def _ready(outcome: VariantsOutcome) -> Condition:
    if outcome.conflicts:
        message = (
            f"{', '.join(outcome.conflicts)} exists and is not controlled by this pool, so no pool of a variant is"
            " created: delete it, or give the pool or the variant another name"
        )
        return condition(READY, FALSE, "NameConflict", message)
    rejected = rejection(outcome.view)
    if rejected is not None:
        return rejected
    if outcome.desired == 0:
        message = "every variant has zero replicas, and the pool serves no requests: set spec.replicas to 1 or more"
        return condition(READY, FALSE, SCALED_TO_ZERO, message)
    return _replicas(outcome)


def _replicas(outcome: VariantsOutcome) -> Condition:
    count = f"{outcome.ready}/{outcome.desired} replicas ready: {replicas_text(outcome)}"
    lacking = list(_lacking(outcome))
    if not lacking:
        return condition(READY, TRUE, "AllReplicasReady", count)
    cause = next((each for name in lacking if (each := outcome.condition_of(name, READY))), None)
    if outcome.ready:
        why = "" if cause is None else f"; {lacking[0]}: {cause.message}"
        return condition(READY, TRUE, "SomeReplicasReady", count + why)
    if cause is None or cause.status is TRUE:
        return condition(READY, FALSE, "ReplicasUnavailable", f"{count}; no pod exists yet")
    return condition(READY, FALSE, cause.reason, f"{count}; {lacking[0]}: {cause.message}")


def _lacking(outcome: VariantsOutcome) -> Iterator[str]:
    """Yield the variants with fewer Ready pods than requested."""
    for name, count in outcome.counts.replicas.items():
        if _ready_pods(outcome, name) < count:
            yield name


def _progressing(outcome: VariantsOutcome, stale: frozenset[str]) -> Condition:
    if outcome.conflicts or rejection(outcome.view) is not None:
        return condition(PROGRESSING, FALSE, "Blocked", "blocked: see the Ready condition")
    if stale:
        message = f"pools of variants observe their new spec: {', '.join(sorted(stale))}"
        return condition(PROGRESSING, TRUE, "Scaling", message)
    for name in outcome.pools:
        stated = outcome.condition_of(name, PROGRESSING)
        if stated is None or stated.status is TRUE or stated.reason not in ("Settled", "Blocked"):
            why = "its pool is new" if stated is None else stated.message
            status = TRUE if stated is None else stated.status
            reason = "Starting" if stated is None else stated.reason
            return condition(PROGRESSING, status, reason, f"{name}: {why}")
    if outcome.pools.keys() != outcome.counts.replicas.keys():
        return condition(PROGRESSING, TRUE, "Scaling", "pools of variants are created or deleted")
    return condition(PROGRESSING, FALSE, "Settled", "every replica runs the pinned template")


def _up_to_date(outcome: VariantsOutcome) -> Iterator[Condition]:
    altered = alteration(outcome.view)
    if altered is not None:
        yield altered
    else:
        yield from _worst(outcome, GOOD_WHEN_TRUE[:1], FALSE)


def _kstatus(
    outcome: VariantsOutcome, ready: Condition, changing: Condition, stale: frozenset[str]
) -> Iterator[Condition]:
    """Yield Stalled if a variant or the pool itself needs help, Reconciling while one of them makes progress.

    What the pools of `stale` variants state is about an earlier spec.
    """
    blocked = ready.status is FALSE and ready.reason in ("NameConflict", "ChildRejected")
    if blocked:
        yield condition(STALLED, TRUE, ready.reason, ready.message)
        return
    for kind in (STALLED, RECONCILING):
        for name in outcome.pools:
            stated = None if name in stale else outcome.condition_of(name, kind)
            if stated is not None and stated.status is TRUE:
                yield condition(kind, TRUE, stated.reason, f"{name}: {stated.message}")
                return
    if stale or outcome.pools.keys() != outcome.counts.replicas.keys():
        yield condition(RECONCILING, TRUE, changing.reason, changing.message)


def _worst(
    outcome: VariantsOutcome, types: Sequence[str], bad: ConditionStatus
) -> Iterator[Condition]:
    """Yield for each type the first bad condition of a variant with replicas, else the first."""
    serving = [name for name, count in outcome.counts.replicas.items() if count]
    for kind in types:
        reported = [
            (name, stated) for name in serving if (stated := outcome.condition_of(name, kind))
        ]
        if reported:
            wrong = [each for each in reported if each[1].status is bad]
            name, shown = (wrong or reported)[0]
            message = f"{name}: {shown.message}" if shown.message else ""
            yield condition(kind, shown.status, shown.reason, message)


def _scaling(outcome: VariantsOutcome) -> Condition:
    spec, counts = outcome.effective, outcome.counts
    mode = spec.scaling_mode
    if mode is ScalingMode.MANUAL and outcome.desired != spec.replicas:
        message = (
            f"scaling.mode is Manual: spec.replicas is {spec.replicas}, and the variants' minReplicas and maxReplicas"
            f" make it {outcome.desired}: {replicas_text(outcome)}"
        )
        return condition("Scaling", FALSE, "VariantBounds", message)
    if mode is ScalingMode.AUTO and counts.blind:
        consequence = "the replica counts are held"
        if counts.mix is not None:
            consequence = "their Ready replicas stay, and their demand is that measured last"
        message = f"no signals of variants {', '.join(counts.blind)}: {consequence}"
        return condition("Scaling", FALSE, "SignalsAbsent", message)
    if mode is ScalingMode.AUTO and counts.mix is not None and counts.mix.unmet > 0:
        message = (
            f"no mix within the bounds serves the demand: {counts.mix.unmet:.0f} rows/s lack capacity; raise"
            " scaling.maxReplicas or a variant's maxReplicas"
        )
        return condition("Scaling", TRUE, "CapacityExhausted", message)
    return scaling_condition(spec, ignored=False, blind=False)


def _split(outcome: VariantsOutcome) -> Condition:
    """Return whether requests are split by what a replica of each variant serves."""
    if outcome.gateway.route.step is not RouteStep.ROUTED:
        message = (
            "connections are spread over the pods alike, whatever a replica serves, so the slowest variant is busiest:"
            " set routing.mode Gateway"
        )
        return condition(SPLIT, FALSE, "ByConnections", message)
    if not outcome.weights:
        message = "no variant has been measured: the gateway gives each request to a pod with the fewest requests"
        return condition(SPLIT, FALSE, "NotMeasured", message)
    shown = ", ".join(f"{name} {weight}" for name, weight in outcome.weights.items())
    return condition(SPLIT, TRUE, "ByWeight", f"weights of a pod at the gateway: {shown}")
