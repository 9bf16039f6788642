"""`StudyRecord`: the trials of a study so far, and the lines of output from which a reader keeps it. Pure.

With `--events` the tuner writes one `Event` a line, in JSON. A reader that adds each trial to the record, and gives the record to a
later tuner of the same study (`--resume`), loses none of them.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from penstock_tuner.settings import ROUNDS, LoadMeasurement, TunedSettings, TuningObjective

MARK = "tuner"
"""Key of the kind in every line, by which a reader knows it from other output."""


@dataclass(frozen=True, slots=True)
class TriedSettings:
    """Settings with their longest measurement under a closed loop, and one under an open loop if there is a rate."""

    settings: TunedSettings
    measurement: LoadMeasurement
    rounds: tuple[float, ...] = ()
    """Score of each round (`TuningObjective.score`); fewer than all: the trial was pruned."""
    at_rate: LoadMeasurement | None = None
    """Under the open loop; None: not measured."""
    failure: str = ""
    """Why no pod serves with these settings; empty: one did."""
    again: bool = False
    """Whether it is a further measurement of settings that were among the best, of the length of a last round."""

    @property
    def is_complete(self) -> bool:
        """Whether the settings were measured for the length of a last round."""
        return self.again or len(self.rounds) == ROUNDS

    @property
    def attainment(self) -> float:
        """Share of requests that were on time, 0 to 1: the lower of both loads."""
        shares = [self.measurement.attainment]
        return min(shares if self.at_rate is None else [*shares, self.at_rate.attainment])

    def meets(self, objective: TuningObjective) -> bool:
        """Return whether enough requests were on time under every load."""
        return 100 * self.attainment >= objective.percent

    def as_json(self) -> dict[str, Any]:
        """Return the trial in JSON."""
        return {
            "settings": self.settings.as_json(),
            "measurement": asdict(self.measurement),
            "rounds": list(self.rounds),
            "at_rate": None if self.at_rate is None else asdict(self.at_rate),
            "failure": self.failure,
            "again": self.again,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "TriedSettings":
        """Return the trial of `as_json`. Raises `KeyError` or `TypeError` for anything else."""
        at_rate = given["at_rate"]
        return cls(
            TunedSettings.from_json(given["settings"]),
            LoadMeasurement(**given["measurement"]),
            tuple(map(float, given["rounds"])),
            None if at_rate is None else LoadMeasurement(**at_rate),
            str(given.get("failure", "")),
            bool(given.get("again", False)),
        )


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """The trials of one study, and the time that they took."""

    study: str = ""
    spent_seconds: float = 0.0
    tried: tuple[TriedSettings, ...] = ()

    def with_trial(self, study: str, tried: TriedSettings, spent_seconds: float) -> "StudyRecord":
        """Return the record with one more trial; the first of another study begins a new record."""
        before = self if self.study == study else StudyRecord(study)
        return replace(before, tried=(*before.tried, tried), spent_seconds=spent_seconds)

    def text(self) -> str:
        """Return the record in JSON."""
        tried = [each.as_json() for each in self.tried]
        return json.dumps({"study": self.study, "spent_seconds": self.spent_seconds, "tried": tried})  # fmt: skip

    @classmethod
    def read(cls, text: str) -> "StudyRecord":
        """Return the record of `text`.

        Raises:
            ValueError: it is of another version, or no record.
        """
        try:
            given = json.loads(text)
            tried = tuple(map(TriedSettings.from_json, given["tried"]))
            return cls(str(given["study"]), float(given["spent_seconds"]), tried)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the record of a study: {error!r}") from error


class EventKind(StrEnum):
    """Kind of a line."""

    READY = "Ready"
    """The first pod serves; `study` is that of all trials that follow."""
    TRIAL = "Trial"
    NOTE = "Note"
    ERROR = "Error"
    DONE = "Done"


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the tuner's output."""

    kind: EventKind
    message: str = ""
    study: str = ""
    spent_seconds: float = 0.0
    tried: TriedSettings | None = None

    def line(self) -> str:
        """Return the line."""
        tried = None if self.tried is None else self.tried.as_json()
        return json.dumps(
            {
                MARK: self.kind,
                "message": self.message,
                "study": self.study,
                "spent_seconds": round(self.spent_seconds, 2),
                "tried": tried,
            }
        )

    @classmethod
    def read(cls, line: str) -> "Event | None":
        """Return the event of a line; None for any other output."""
        try:
            given = json.loads(line)
            tried = given["tried"]
            return cls(
                EventKind(given[MARK]),
                str(given["message"]),
                str(given["study"]),
                float(given["spent_seconds"]),
                None if tried is None else TriedSettings.from_json(tried),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
