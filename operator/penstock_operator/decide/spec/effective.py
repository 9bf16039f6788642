"""The effective spec of a pool: built-in < policy default < spec, then bounds and schedules."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from penstock_api.hold import HoldLimits
from penstock_api.pod_contract import Discipline, Preemption
from penstock_api.types.batch_work import BatchWorkSpec
from penstock_api.types.batching import BatchingMode
from penstock_api.types.model import Task
from penstock_api.types.objectives import ObjectiveMetric
from penstock_api.types.pool import PoolSpec
from penstock_api.types.scaling import ScaleToZero, ScalingAlgorithm, ScalingMode
from penstock_api.types.service import RoutingMode, ServiceSpec
from penstock_api.types.status import BoundedField, EffectiveField, PolicyReference
from penstock_operator.decide.spec import live_fields
from penstock_operator.decide.spec.bounds import lowered, tightest
from penstock_operator.decide.spec.law_settings import AllowedLateShares, Guards, LawSettings
from penstock_operator.decide.spec.live_fields import Fields, Value
from penstock_operator.decide.spec.objectives import LATE_SHARE, Target
from penstock_operator.decide.spec.origins import (
    ROLLBACK,
    effective_fields,
    layer_origins,
    own_fields,
    own_origins,
    with_schedule,
)
from penstock_operator.decide.spec.policy_defaults import Tie, policy_defaults
from penstock_operator.decide.spec.ranges import Layers, reconcile
from penstock_operator.decide.spec.scaling_mode import scaling_mode
from penstock_operator.decide.spec.schedules import Opening, highest
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.decide.spec.service import granted_service
from penstock_operator.observed import PolicyObject, PoolObject

IDLE_SECONDS, MAX_HOLD_SECONDS, MAX_HELD_REQUESTS = 300, 600, 1000
"""Built-in values of `spec.scaling.scaleToZero`."""
GUARDS = frozenset(
    {
        live_fields.LOW_PERCENT,
        live_fields.HIGH_PERCENT,
        live_fields.TARGET_PER_REPLICA,
        live_fields.STABILIZATION_SECONDS,
    }
)
"""Fields that a law takes as targets only if the spec or a policy sets them (docs/design/control-law.md#capacityatobjective)."""


@dataclass(frozen=True, slots=True)
class EffectiveSpec:
    """The live fields in force for one pool, and the reasons where they differ from the requested ones."""

    law: LawSettings
    algorithm: ScalingAlgorithm
    scaling_mode: ScalingMode
    batching_mode: BatchingMode
    replicas: int
    """`spec.replicas` within the bounds: the count in modes Manual and Recommend."""
    max_queue_depth: int
    discipline: Discipline
    preemption: Preemption
    bounded: tuple[BoundedField, ...]
    policies: tuple[PolicyReference, ...]
    max_batched_tokens: int | None = None
    """Tokens of a step; None: chosen by the pod."""
    weight: int = 100
    """Weight of the pool's share where devices are short."""
    replicas_bound: int | None = None
    """Tightest bound on replicas of all policies; it applies in every mode, Hold included."""
    ties: tuple[Tie, ...] = ()
    """Fields on which policies of equal priority disagree, whether or not the spec sets them."""
    unresolved_ties: tuple[Tie, ...] = ()
    """Those of `ties` that the pool's own spec does not settle."""
    notes: tuple[str, ...] = ()
    """Sentences on defaults that the spec or another default overrides, and on open schedules."""
    policy_defaults: Mapping[str, Value] | None = None
    """Values of the policies in force now, which stay when a tie appears."""
    fields: Mapping[str, Value] = field(default_factory=dict)
    """All live fields by path, after bounds and before schedules: the effective revision."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Origin of each of `fields` and of the modes, before schedules and rollback."""
    reported: tuple[EffectiveField, ...] = ()
    """Live fields and modes with the values in force and their origins, for the status."""
    guarded: frozenset[str] = frozenset()
    """Fields that the spec or a policy sets, and that a law therefore takes as guards."""
    opening: Opening | None = None
    """Open window of a schedule."""
    service: ServiceSpec = field(default_factory=ServiceSpec)
    """Settings of the Service within the bounds."""
    routing_mode: RoutingMode = RoutingMode.SERVICE
    """Requested routing; the condition Routed reports whether the gateway serves it."""
    scale_to_zero: ScaleToZero = field(default_factory=ScaleToZero)
    """Settings of a pool that may be at zero, as its spec has them."""
    batch_work: BatchWorkSpec | None = None
    """Settings of batch work, as the spec has them."""

    @property
    def idle_seconds(self) -> int:
        """Return the time without a request after which the last replica goes."""
        return self.scale_to_zero.idle_seconds or IDLE_SECONDS

    @property
    def hold(self) -> HoldLimits:
        """Return the bounds of what a gateway holds: at most two batches, or what the queue admits, are sent to a pod at once."""
        return HoldLimits(
            self.scale_to_zero.max_hold_seconds or MAX_HOLD_SECONDS,
            self.scale_to_zero.max_held_requests or MAX_HELD_REQUESTS,
            max(min(2 * self.law.size_max, self.max_queue_depth), 1),
        )


def effective(
    pool: PoolObject,
    namespace_labels: Mapping[str, str],
    policies: Iterable[PolicyObject],
    previous: Fields | None = None,
    open_now: dict[str, Opening] | None = None,
) -> EffectiveSpec:
    """Return the effective spec.

    `previous` are the policy defaults in force before (see `defaults.py`), `open_now` the schedules' open windows.
    """
    selected = matching(pool.labels, namespace_labels, policies)
    defaults = policy_defaults(selected, previous or {})
    spec = live_fields_of(pool.spec, defaults.values)
    reconciled, notes = reconcile(spec)
    values, law_notes = with_law_of_task(reconciled, pool.spec.model.task)
    mode = scaling_mode(pool)
    requested = {"replicas": pool.spec.replicas, **values}
    granted, lower = lowered(requested, selected)
    bounded = tuple(
        item
        for item in lower
        if mode is not ScalingMode.MANUAL or not item.field.startswith("spec.scaling.")
    )
    batching_mode = (pool.spec.batching and pool.spec.batching.mode) or BatchingMode.AUTO
    routing_mode = (pool.spec.routing and pool.spec.routing.mode) or RoutingMode.SERVICE
    service, service_bounded = granted_service(pool.spec.service, selected)
    origins = {
        **layer_origins(spec, defaults, requested, lower),
        **own_origins(pool.spec, service_bounded),
    }
    opening = highest(open_now or {}, selected)
    guarded = frozenset({**spec.defaults, **spec.spec}) & GUARDS
    scheduled, schedule_notes = _scheduled(granted, opening)
    return EffectiveSpec(
        law=_law(scheduled, guarded),
        algorithm=ScalingAlgorithm(str(granted[live_fields.ALGORITHM])),
        scaling_mode=mode,
        batching_mode=batching_mode,
        replicas=int(granted["replicas"]),
        max_queue_depth=int(granted[live_fields.MAX_QUEUE_DEPTH]),
        discipline=Discipline(str(granted[live_fields.DISCIPLINE])),
        preemption=Preemption(str(granted[live_fields.PREEMPTION])),
        bounded=(*bounded, *service_bounded),
        policies=tuple(PolicyReference(name=p.name, generation=p.generation) for p in selected),
        max_batched_tokens=_batched_tokens(granted),
        weight=int(granted[live_fields.WEIGHT]),
        replicas_bound=tightest(selected, "replicas"),
        ties=defaults.ties,
        unresolved_ties=tuple(tie for tie in defaults.ties if tie.field not in spec.spec),
        notes=(*notes, *law_notes, *schedule_notes),
        policy_defaults=dict(defaults.values),
        fields=granted,
        origins=origins,
        reported=effective_fields(
            {**scheduled, **own_fields(mode, batching_mode, service, routing_mode)},
            with_schedule(origins, granted, scheduled, opening),
        ),
        guarded=guarded,
        opening=opening,
        service=service,
        routing_mode=routing_mode,
        scale_to_zero=(pool.spec.scaling and pool.spec.scaling.scale_to_zero) or ScaleToZero(),
        batch_work=pool.spec.batch_work,
    )


def with_law_of_task(values: Fields, task: Task | None) -> tuple[Fields, tuple[str, ...]]:
    """Return the fields with a law that measures the task's work, and a note if another one is set.

    UtilizationBand counts requests and batches; answers of a pool that generates text span many batches.
    """
    law = ScalingAlgorithm.CAPACITY_AT_OBJECTIVE.value
    if task is not Task.TEXT_GENERATION or values.get(live_fields.ALGORITHM, law) == law:
        return values, ()
    note = f"{live_fields.ALGORITHM} {values[live_fields.ALGORITHM]} does not apply to task TextGeneration: {law} does"
    return {**values, live_fields.ALGORITHM: law}, (note,)


def in_force(spec: EffectiveSpec, values: Fields, guarded: frozenset[str]) -> EffectiveSpec:
    """Return `spec` with other values in force than the requested ones; modes, weight and notes are its own."""
    scheduled, _ = _scheduled(dict(values), spec.opening)
    own = own_fields(spec.scaling_mode, spec.batching_mode, spec.service, spec.routing_mode)
    origins = {
        path: spec.origins[path] if value == spec.fields.get(path) else ROLLBACK
        for path, value in values.items()
    }
    return replace(
        spec,
        law=_law(scheduled, guarded),
        algorithm=ScalingAlgorithm(str(values[live_fields.ALGORITHM])),
        max_queue_depth=int(values[live_fields.MAX_QUEUE_DEPTH]),
        discipline=Discipline(str(values[live_fields.DISCIPLINE])),
        preemption=Preemption(str(values[live_fields.PREEMPTION])),
        max_batched_tokens=_batched_tokens(values),
        reported=effective_fields(
            {**scheduled, **own},
            {**spec.origins, **with_schedule(origins, values, scheduled, spec.opening)},
        ),
    )


def _scheduled(
    granted: dict[str, Value], opening: Opening | None
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the fields with the floor of an open window, which never exceeds the maximum, and a note on it."""
    low, high = int(granted[live_fields.MIN_REPLICAS]), int(granted[live_fields.MAX_REPLICAS])
    if opening is None or opening.min_replicas <= low:
        return granted, ()
    floor = min(opening.min_replicas, high)
    until = datetime.fromtimestamp(opening.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    note = f"schedule {opening.schedule} of policy {opening.policy}: at least {floor} replicas until {until}"
    if floor < opening.min_replicas:
        note += f", because {opening.min_replicas} exceeds scaling.maxReplicas"
    return {**granted, live_fields.MIN_REPLICAS: floor}, (note,)


def _batched_tokens(values: Fields) -> int | None:
    tokens = values.get(live_fields.MAX_BATCHED_TOKENS)
    return None if tokens is None else int(tokens)


def live_fields_of(spec: PoolSpec, defaults: Fields) -> Layers:
    """Return the two layers over the built-in values; `objectives: []` of a pool removes the defaults' objectives."""
    own = live_fields.live_fields(spec)
    if spec.objectives is not None:
        defaults = {k: v for k, v in defaults.items() if not k.startswith(live_fields.OBJECTIVE)}
    return Layers(defaults, own)


def _law(values: Fields, guarded: frozenset[str]) -> LawSettings:
    """Return the settings of the law; a guard is a `guarded` field at the value in force."""

    def target(metric: ObjectiveMetric) -> Target | None:
        value = values.get(live_fields.OBJECTIVE + metric.value)
        return None if value is None else Target.read(value)

    def milliseconds(target: Target | None) -> int | None:
        return None if target is None else target.milliseconds

    def late(target: Target | None) -> float:
        return LATE_SHARE if target is None else target.late_share

    request = target(ObjectiveMetric.REQUEST_LATENCY)
    first_token = target(ObjectiveMetric.TIME_TO_FIRST_TOKEN)
    output_token = target(ObjectiveMetric.TIME_PER_OUTPUT_TOKEN)
    return LawSettings(
        objective_milliseconds=milliseconds(request),
        first_token_milliseconds=milliseconds(first_token),
        output_token_milliseconds=milliseconds(output_token),
        late=AllowedLateShares(late(request), late(first_token), late(output_token)),
        size_min=int(values[live_fields.SIZE_MIN]),
        size_max=int(values[live_fields.SIZE_MAX]),
        max_queue_delay_milliseconds=int(values[live_fields.MAX_QUEUE_DELAY]),
        min_replicas=int(values[live_fields.MIN_REPLICAS]),
        max_replicas=int(values[live_fields.MAX_REPLICAS]),
        low_percent=int(values[live_fields.LOW_PERCENT]),
        high_percent=int(values[live_fields.HIGH_PERCENT]),
        target_per_replica=int(values[live_fields.TARGET_PER_REPLICA]),
        stabilization_seconds=int(values[live_fields.STABILIZATION_SECONDS]),
        max_percent_per_minute=int(values[live_fields.MAX_PERCENT_PER_MINUTE]),
        guards=_guards(values, guarded),
    )


def _guards(values: Fields, guarded: frozenset[str]) -> Guards:
    def guard(path: str) -> int | None:
        return int(values[path]) if path in guarded else None

    return Guards(
        low_percent=guard(live_fields.LOW_PERCENT),
        high_percent=guard(live_fields.HIGH_PERCENT),
        target_per_replica=guard(live_fields.TARGET_PER_REPLICA),
        stabilization_seconds=guard(live_fields.STABILIZATION_SECONDS),
    )
