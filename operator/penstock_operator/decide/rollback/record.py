"""The rollback record of a pool: its accepted settings, those on trial and those rolled back.

It is stored as JSON in a ConfigMap of the operator's own namespace, so that it outlives the operator. An unreadable
record is ignored.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as validated

from penstock_api.types.model import Task
from penstock_operator.decide.spec.effective import with_law_of_task
from penstock_operator.decide.spec.live_fields import MIN_REPLICAS, OBJECTIVE, Value, plausible

DIGITS = 12


@validated(frozen=True, config=ConfigDict(extra="forbid"))
class Score:
    """Requests of one window."""

    good: float
    total: float
    seconds: float

    @property
    def attainment(self) -> float:
        """Return the share on time, 0 to 1."""
        return self.good / self.total if self.total > 0 else 1.0

    @property
    def demand(self) -> float:
        """Return requests per second."""
        return self.total / self.seconds if self.seconds > 0 else 0.0


@validated(frozen=True, config=ConfigDict(extra="forbid"))
class Settings:
    """An effective revision: the live fields in force, and which of them the spec or a policy set as guards."""

    fields: dict[str, Value]
    guarded: tuple[str, ...] = ()

    @property
    def objectives(self) -> dict[str, Value]:
        """Return the objectives by path."""
        return {key: value for key, value in self.fields.items() if key.startswith(OBJECTIVE)}

    def with_objectives(self, objectives: Mapping[str, Value]) -> "Settings":
        """Return these settings with other objectives."""
        own = {key: value for key, value in self.fields.items() if not key.startswith(OBJECTIVE)}
        return Settings({**own, **objectives}, self.guarded)

    def digest(self) -> str:
        """Return a short hash."""
        text = json.dumps([self.fields, sorted(self.guarded)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True, slots=True)
class Record:
    """The accepted settings of one pool, and the outcome of later ones."""

    accepted: Settings
    trial: str = ""
    """Digest of the settings on trial."""
    before: Score | None = None
    """Score of the accepted settings that a trial is compared with.

    None once they were in force for a new window, unless settings are rolled back.
    """
    rolled_back: Annotated[str, Field(alias="set_aside")] = ""
    """Digest of the settings that were rolled back; stored as `set_aside`."""
    why: str = ""
    """Loss of attainment, as a sentence."""

    def as_json(self) -> str:
        """Return the record as it is stored."""
        return _RECORD.dump_json(self, by_alias=True).decode()


_RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def read_record(text: str | None, task: Task | None = None) -> Record | None:
    """Return the stored record with a law that measures the task's work; None if it is absent or unreadable."""
    if text is None:
        return None
    try:
        record = _RECORD.validate_json(text)
    except ValidationError:
        return None
    if not isinstance(record, Record):
        return None
    accepted = record.accepted
    for name, value in accepted.fields.items():
        may_be_zero = name == MIN_REPLICAS and value == 0  # of a pool, not of a policy
        if not may_be_zero and not plausible(name, value):
            return None
    values, _ = with_law_of_task(accepted.fields, task)
    return replace(record, accepted=Settings(dict(values), accepted.guarded))
