"""What the plugin knows of one pool: the API server's objects as the values that decisions read. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from penstock_api import names
from penstock_api.types.policy import PolicySpec, PolicyStatus
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_kubectl.errors import NotEnoughData
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
    """One pool, and who else has a say in it."""

    pool: PoolObject
    namespace_labels: Mapping[str, str]
    policies: tuple[PolicyObject, ...]
    notes: tuple[Note, ...] = ()
    """Newest first."""


def pool_object(raw: Object) -> PoolObject:
    """Return a pool from the API server's words.

    Raises:
        Unfit: its spec is of a schema that this plugin does not know.
    """
    meta, what = raw["metadata"], f"pool {raw['metadata']['name']}"
    spec, status = (
        _valid(PoolSpec, raw["spec"], what),
        _valid(PoolStatus, raw.get("status") or {}, what),
    )
    return PoolObject.of(meta, spec, status)


def policy_object(raw: Object) -> PolicyObject:
    """Return a policy from the API server's words, or from a file.

    Raises:
        Unfit: it is no InferencePolicy, or not one that the API server would take.
    """
    meta = raw.get("metadata") or {}
    name = str(meta.get("name") or "")
    if raw.get("kind") != names.POLICY_KIND or not name:
        raise NotEnoughData(
            f"wants kind: {names.POLICY_KIND} with a metadata.name, got {raw.get('kind')}"
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
    """Return the cluster's policies, with those proposed in the place of their namesakes."""
    by_name = {one.name: one for one in subject.policies}
    return tuple({**by_name, **{one.name: one for one in proposed}}.values())


def note(raw: Object) -> Note:
    """Return an Event."""
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
