"""`PoolContext`: a pool with its policies and Events, parsed from objects of the API server. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock_api import names
from penstock_api.types.objectives import ObjectiveMetric
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import EffectiveField, PoolStatus
from penstock_kubectl.errors import NotEnoughData
from penstock_operator.decide.manifests.config_map import recorded_defaults
from penstock_operator.decide.spec.effective import effective
from penstock_operator.decide.spec.live_fields import OBJECTIVE, Fields, Value, live_fields
from penstock_operator.decide.spec.objectives import Target
from penstock_operator.decide.spec.origins import KEPT
from penstock_operator.observed import PolicyObject, PoolObject

Object = Mapping[str, Any]
Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Note:
    """An Event on the pool."""

    time: datetime
    type: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class PoolContext:
    """A pool, its policies, namespace labels and Events."""

    pool: PoolObject
    namespace_labels: Mapping[str, str]
    policies: tuple[PolicyObject, ...]
    notes: tuple[Note, ...] = ()
    """Events, newest first."""
    unread: str = ""
    """Why policies, or the labels that select them, cannot be read; empty if all were."""
    recorded: Fields | None = None
    """Policy defaults in force, as the operator records them; None: there is no record, or the user may not read it."""

    @property
    def lacks_policies(self) -> bool:
        """Whether `in_force` is computed without the policies that cannot be read."""
        return bool(self.unread) and self.pool.status.effective is None


def in_force(subject: PoolContext) -> dict[str, EffectiveField]:
    """Return the live fields by path: as the operator reports them, else as computed from the pool and its policies."""
    reported = subject.pool.status.effective
    if reported is None:
        spec = effective(subject.pool, subject.namespace_labels, subject.policies)
        reported = spec.reported
    return {each.field: each for each in reported}


def values_of(subject: PoolContext, *origins: str) -> dict[str, Value]:
    """Return the live fields that the operator reports with these kinds of origin, with their values as in `live_fields`."""
    reported = subject.pool.status.effective or ()
    return {each.field: _value(each) for each in reported if each.origin.split()[0] in origins}


def previous_defaults(subject: PoolContext) -> Fields:
    """Return the policy defaults in force, which stay through ties; without a record of them those of the status, after bounds."""
    if subject.recorded is not None:
        return subject.recorded
    own = live_fields(subject.pool.spec)
    reported = values_of(subject, KEPT, "PolicyDefault", "Bound")
    return {path: value for path, value in reported.items() if path not in own}


def policy_record(config_map: Object | None, pool: PoolObject) -> Fields | None:
    """Return the policy defaults that the pool's ConfigMap records; None if it has none of its own."""
    owners = () if config_map is None else config_map["metadata"].get("ownerReferences") or ()
    controls = any(each.get("controller") and each["uid"] == pool.uid for each in owners)
    return recorded_defaults(config_map) if config_map is not None and controls else None


def _value(each: EffectiveField) -> Value:
    if each.field.startswith(OBJECTIVE):
        return _target(each).as_field()
    return int(each.value) if each.value.isdecimal() else each.value


def _target(each: EffectiveField) -> Target:
    return Target.read(each.value.replace(" ms for ", "@").removesuffix(" %"))


def policies_missing(subject: PoolContext) -> str:
    """Return what the values lack if policies cannot be read."""
    return (
        "bounds, objectives and schedules of policies are left out, since you may not read them: `get` and `list` of"
        f" {names.POLICY_PLURAL} and namespaces need a ClusterRoleBinding ({subject.unread})"
    )


def objectives(subject: PoolContext) -> dict[ObjectiveMetric, Target]:
    """Return the objectives in force, whose values are texts of `Target`."""
    fields = in_force(subject)
    known = ((metric, fields.get(OBJECTIVE + metric.value)) for metric in ObjectiveMetric)
    return {metric: _target(each) for metric, each in known if each is not None}


def pool_names(subject: PoolContext) -> tuple[str, ...]:
    """Return the names of the pools that have the pods: its own, or those of its variants."""
    pool = subject.pool
    variants = [names.variant_pool(pool.name, each.name) for each in pool.spec.variants or ()]
    return tuple(variants) or (pool.name,)


def without_variants(subject: PoolContext) -> PoolContext:
    """Return a pool whose pods are alike.

    Raises:
        NotEnoughData: it has variants, each with its own pool.
    """
    if subject.pool.spec.variants:
        pools = ", ".join(pool_names(subject))
        raise NotEnoughData(
            f"pool {subject.pool.name} has variants, whose replicas differ: use one of their pools {pools}"
        )
    return subject


def pool_object(raw: Object) -> PoolObject:
    """Parse a pool.

    Raises:
        NotEnoughData: this plugin does not support the schema of the spec.
    """
    meta, what = raw["metadata"], f"pool {raw['metadata']['name']}"
    spec, status = (
        _valid(PoolSpec, raw["spec"], what),
        _valid(PoolStatus, raw.get("status") or {}, what),
    )
    return PoolObject.of(meta, spec, status)


def proposed_policy(raw: Object) -> PolicyObject:
    """Parse a policy that the API server would accept, from a file.

    Raises:
        NotEnoughData: the object is not a valid InferencePolicy, or has an unknown field.
    """
    policy = policy_object(raw)
    known = {key: raw.get(key) for key in ("apiVersion", "kind", "metadata", "status")}
    known["spec"] = policy.spec.model_dump(by_alias=True, exclude_unset=True)
    if unknown := next(_unknown(raw, known), None):
        raise NotEnoughData(f"policy {policy.name}: {unknown[1:]} is not a field of a policy: correct or remove it")  # fmt: skip
    for field, value in (("bounds", policy.spec.bounds), ("gpuBudgets", policy.spec.gpu_budgets)):
        if policy.spec.pool_selector is not None and value:
            raise NotEnoughData(f"policy {policy.name}: spec.poolSelector cannot be combined with spec.{field}: select by namespaceSelector")  # fmt: skip
    return policy


def _unknown(raw: object, known: object, path: str = "") -> Iterator[str]:
    """Yield the paths of `raw` that are not in `known`."""
    if isinstance(raw, Mapping) and isinstance(known, Mapping):
        for key, value in raw.items():
            if key in known:
                yield from _unknown(value, known[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(raw, list) and isinstance(known, tuple):
        for number, each in enumerate(zip(raw, known, strict=False)):
            yield from _unknown(*each, f"{path}[{number}]")


def policy_object(raw: Object) -> PolicyObject:
    """Parse a policy of the API server.

    Raises:
        NotEnoughData: the object is not a valid InferencePolicy.
    """
    meta = raw.get("metadata") or {}
    name = str(meta.get("name") or "")
    if raw.get("kind") != names.POLICY_KIND or not name:
        raise NotEnoughData(
            f"expected kind {names.POLICY_KIND} with a metadata.name, got {raw.get('kind')}"
        )
    return PolicyObject(
        uid=str(meta.get("uid") or name),
        name=name,
        generation=int(meta.get("generation") or 0),
        spec=_valid(PolicySpec, raw.get("spec") or {}, f"policy {name}"),
        status=PolicyStatus(),
    )


def with_policies(
    subject: PoolContext, proposed: Iterable[PolicyObject]
) -> tuple[PolicyObject, ...]:
    """Return the cluster's policies, where proposed ones replace those of the same name."""
    by_name = {policy.name: policy for policy in subject.policies}
    return tuple({**by_name, **{policy.name: policy for policy in proposed}}.values())


def note(raw: Object) -> Note:
    """Parse an Event."""
    last = raw.get("lastTimestamp") or raw.get("eventTime") or raw["metadata"]["creationTimestamp"]
    time = datetime.fromisoformat(last)
    return Note(time, raw.get("type", ""), raw.get("reason", ""), raw.get("message", ""))


def _valid(model: type[Model], raw: Object, what: str) -> Model:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise NotEnoughData(f"{what}: {where}: {first['msg']}") from error
