"""What outlives the operator of a pool's settings: the last good ones, those on trial, those set aside.

Kept as JSON in a ConfigMap of the operator's own namespace. One that cannot be read is as good as none.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from penstock_operator.decide.spec.live_fields import OBJECTIVE, Value, plausible

DIGITS = 12


@checked(frozen=True, config=ConfigDict(extra="forbid"))
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
        """Return requests a second."""
        return self.total / self.seconds if self.seconds > 0 else 0.0


@checked(frozen=True, config=ConfigDict(extra="forbid"))
class Settings:
    """An effective revision: the live fields in force, and which of them somebody asked for as guards."""

    fields: dict[str, Value]
    guarded: tuple[str, ...] = ()

    @property
    def objectives(self) -> dict[str, int]:
        """Return the objectives by path, in milliseconds."""
        return {key: int(value) for key, value in self.fields.items() if key.startswith(OBJECTIVE)}

    def aimed_at(self, objectives: Mapping[str, int]) -> "Settings":
        """Return these settings with other objectives."""
        own = {key: value for key, value in self.fields.items() if not key.startswith(OBJECTIVE)}
        return Settings({**own, **objectives}, self.guarded)

    def digest(self) -> str:
        """Return a short hash."""
        text = json.dumps([self.fields, sorted(self.guarded)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


@dataclass(frozen=True, slots=True)
class Record:
    """The settings of one pool that were found good, and what became of later ones."""

    accepted: Settings
    trial: str = ""
    """Digest of the settings that are being tried."""
    before: Score | None = None
    """Of the accepted settings, what trials are compared with; None once they were in force for a window since."""
    set_aside: str = ""
    """Digest of the settings that did harm."""
    why: str = ""
    """How much harm, in words."""

    def as_json(self) -> str:
        """Return the record as it is kept."""
        return _RECORD.dump_json(self).decode()


_RECORD: TypeAdapter[Any] = TypeAdapter(Record)


def read(text: str | None) -> Record | None:
    """Return a kept record, None where there is none that can be read."""
    if text is None:
        return None
    try:
        record = _RECORD.validate_json(text)
    except ValidationError:
        return None
    if not isinstance(record, Record):
        return None
    return record if all(plausible(*one) for one in record.accepted.fields.items()) else None
