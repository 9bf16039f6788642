"""Pool and policies -> one effective spec: built-in < policy default < spec, then bounds."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from penstock_api.limits import Discipline, Preemption
from penstock_api.types.live import BatchingMode, ObjectiveMetric, ScalingAlgorithm, ScalingMode
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import BoundedField, PolicyReference
from penstock_operator.decide.spec import live_fields as fields
from penstock_operator.decide.spec.bounds import lowered, tightest
from penstock_operator.decide.spec.defaults import Tie, policy_defaults
from penstock_operator.decide.spec.law_settings import Guards, LawSettings
from penstock_operator.decide.spec.live_fields import Fields, Value
from penstock_operator.decide.spec.ranges import Layers, reconcile
from penstock_operator.decide.spec.schedules import Opening, highest
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import PolicyObject, PoolObject

GUARDS = frozenset(
    {
        fields.LOW_PERCENT,
        fields.HIGH_PERCENT,
        fields.TARGET_PER_REPLICA,
        fields.STABILIZATION_SECONDS,
    }
)
"""What a law obeys as the user's own targets, only if set (docs/design/control-law.md#capacityatobjective)."""


@dataclass(frozen=True, slots=True)
class EffectiveSpec:
    """What is in force for one pool's live class, and why it is not what was asked."""

    law: LawSettings
    algorithm: ScalingAlgorithm
    scaling_mode: ScalingMode
    batching_mode: BatchingMode
    replicas: int
    """`spec.replicas`, bounded: the count in modes Manual and Recommend."""
    max_queue_depth: int
    discipline: Discipline
    preemption: Preemption
    bounded: tuple[BoundedField, ...]
    policies: tuple[PolicyReference, ...]
    weight: int = 100
    """The pool's share where devices are short."""
    replicas_bound: int | None = None
    """The tightest policy's bound on replicas: no mode exceeds it, Hold neither."""
    ties: tuple[Tie, ...] = ()
    """Fields on which policies of equal priority disagree, whether or not the spec sets them."""
    felt_ties: tuple[Tie, ...] = ()
    """Those of `ties` that the pool's own spec does not settle."""
    notes: tuple[str, ...] = ()
    """Sentences: which defaults gave way to what the spec says."""
    policy_defaults: Mapping[str, Value] | None = None
    """The policies' values now in force, to be held on to when a tie appears."""
    fields: Mapping[str, Value] = field(default_factory=dict)
    """All of it by path, after bounds and before schedules: the effective revision."""
    guarded: frozenset[str] = frozenset()
    """Fields that somebody asked for, and that a law therefore takes for guards."""
    opening: Opening | None = None
    """The schedule's window that is open now."""


def effective(
    pool: PoolObject,
    namespace_labels: Mapping[str, str],
    policies: Iterable[PolicyObject],
    held: Fields | None = None,
    open_now: dict[str, Opening] | None = None,
) -> EffectiveSpec:
    """Return what is in force.

    `held` are the policy defaults in force before (see `defaults.py`), `open_now` the schedules' open windows.
    """
    selected = matching(pool.labels, namespace_labels, policies)
    defaults = policy_defaults(selected, held or {})
    spec = live_fields_of(pool.spec, defaults.values)
    asked, notes = reconcile(spec)
    mode = (pool.spec.scaling and pool.spec.scaling.mode) or ScalingMode.MANUAL
    wishes = {"replicas": pool.spec.replicas, **asked}
    granted, bounded = lowered(wishes, selected, scales=mode is not ScalingMode.MANUAL)
    opening = highest(open_now or {}, selected)
    guarded = frozenset({**spec.defaults, **spec.spec}) & GUARDS
    scheduled, told = _scheduled(granted, opening)
    return EffectiveSpec(
        law=_law(scheduled, guarded),
        algorithm=ScalingAlgorithm(str(granted[fields.ALGORITHM])),
        scaling_mode=mode,
        batching_mode=(pool.spec.batching and pool.spec.batching.mode) or BatchingMode.AUTO,
        replicas=int(granted["replicas"]),
        max_queue_depth=int(granted[fields.MAX_QUEUE_DEPTH]),
        discipline=Discipline(str(granted[fields.DISCIPLINE])),
        preemption=Preemption(str(granted[fields.PREEMPTION])),
        bounded=bounded,
        policies=tuple(PolicyReference(name=p.name, generation=p.generation) for p in selected),
        weight=int(granted[fields.WEIGHT]),
        replicas_bound=tightest(selected, "replicas"),
        ties=defaults.ties,
        felt_ties=tuple(tie for tie in defaults.ties if tie.field not in spec.spec),
        notes=(*notes, *told),
        policy_defaults=dict(defaults.values),
        fields=granted,
        guarded=guarded,
        opening=opening,
    )


def in_force(spec: EffectiveSpec, values: Fields, guarded: frozenset[str]) -> EffectiveSpec:
    """Return `spec` with other values in force than it asks for; modes, weight and notes are its own."""
    scheduled, _ = _scheduled(dict(values), spec.opening)
    return replace(
        spec,
        law=_law(scheduled, guarded),
        algorithm=ScalingAlgorithm(str(values[fields.ALGORITHM])),
        max_queue_depth=int(values[fields.MAX_QUEUE_DEPTH]),
        discipline=Discipline(str(values[fields.DISCIPLINE])),
        preemption=Preemption(str(values[fields.PREEMPTION])),
    )


def _scheduled(
    granted: dict[str, Value], opening: Opening | None
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Return the fields with the floor of an open window, which never goes above the maximum."""
    least, most = int(granted[fields.MIN_REPLICAS]), int(granted[fields.MAX_REPLICAS])
    if opening is None or opening.min_replicas <= least:
        return granted, ()
    floor = min(opening.min_replicas, most)
    until = datetime.fromtimestamp(opening.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    note = f"schedule {opening.schedule} of policy {opening.policy}: at least {floor} replicas until {until}"
    if floor < opening.min_replicas:
        note += f", for {opening.min_replicas} are above scaling.maxReplicas"
    return {**granted, fields.MIN_REPLICAS: floor}, (note,)


def live_fields_of(spec: PoolSpec, defaults: Fields) -> Layers:
    """Return the two layers over the built-ins; `objectives: []` says that the pool wants none."""
    own = fields.live_fields(spec)
    if spec.objectives is not None:
        defaults = {k: v for k, v in defaults.items() if not k.startswith(fields.OBJECTIVE)}
    return Layers(defaults, own)


def _law(values: Fields, guarded: frozenset[str]) -> LawSettings:
    """Return the settings; a guard is what somebody asked for, at the value in force."""

    def objective(metric: ObjectiveMetric) -> int | None:
        value = values.get(fields.OBJECTIVE + metric.value)
        return None if value is None else int(value)

    return LawSettings(
        objective_milliseconds=objective(ObjectiveMetric.REQUEST_LATENCY),
        first_token_milliseconds=objective(ObjectiveMetric.TIME_TO_FIRST_TOKEN),
        output_token_milliseconds=objective(ObjectiveMetric.TIME_PER_OUTPUT_TOKEN),
        size_min=int(values[fields.SIZE_MIN]),
        size_max=int(values[fields.SIZE_MAX]),
        max_queue_delay_milliseconds=int(values[fields.MAX_QUEUE_DELAY]),
        min_replicas=int(values[fields.MIN_REPLICAS]),
        max_replicas=int(values[fields.MAX_REPLICAS]),
        low_percent=int(values[fields.LOW_PERCENT]),
        high_percent=int(values[fields.HIGH_PERCENT]),
        target_per_replica=int(values[fields.TARGET_PER_REPLICA]),
        stabilization_seconds=int(values[fields.STABILIZATION_SECONDS]),
        max_percent_per_minute=int(values[fields.MAX_PERCENT_PER_MINUTE]),
        guards=_guards(values, guarded),
    )


def _guards(values: Fields, guarded: frozenset[str]) -> Guards:
    def guard(path: str) -> int | None:
        return int(values[path]) if path in guarded else None

    return Guards(
        low_percent=guard(fields.LOW_PERCENT),
        high_percent=guard(fields.HIGH_PERCENT),
        target_per_replica=guard(fields.TARGET_PER_REPLICA),
        stabilization_seconds=guard(fields.STABILIZATION_SECONDS),
    )
