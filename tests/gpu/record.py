"""`Record`: the figures of one part, written to its JSON file after each of them, so that a part that is cut off reports."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

Value = float | int | bool | str
"""A measurement, the outcome of a check, or a text such as a chosen backend."""


class Outcome(StrEnum):
    """How a part ended."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    MISSING = "missing"
    """Something that the whole part needs is not on this machine."""
    CUT_OFF = "cut off"
    """It reached its time limit; the figures so far count."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a part."""

    name: str
    value: Value
    unit: str = ""
    target: float | bool | None = None
    at_most: bool = False
    """Whether the target is an upper bound."""
    judged: bool = True
    """False in a rehearsal, where speeds have no targets; checks are always judged."""

    @property
    def met(self) -> bool | None:
        """Return whether the target is met; None without one, or if it is not judged."""
        if self.target is None or not self.judged:
            return None
        if isinstance(self.target, bool):
            return self.value is self.target
        number = float(self.value)
        return number <= self.target if self.at_most else number >= self.target


@dataclass
class Record:
    """The figures of a part, and what it could not do."""

    part: str
    file: Path
    rehearsal: bool = False
    outcome: Outcome = Outcome.RUNNING
    why: str = ""
    figures: list[Figure] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """What was left out, and why: an absent package, or something that the runtime does not have."""
    failures: dict[str, str] = field(default_factory=dict)
    """Sections that raised, with the error."""
    series: dict[str, Any] = field(default_factory=dict)
    """Values for pictures."""
    began: float = field(default_factory=time.monotonic)

    def figure(
        self,
        name: str,
        value: Value,
        unit: str = "",
        target: float | None = None,
        *,
        at_most: bool = False,
    ) -> None:
        """Add a measurement; `target` is a lower bound unless `at_most`."""
        shown = round(value, 4) if isinstance(value, float) else value
        self._add(Figure(name, shown, unit, target, at_most, judged=not self.rehearsal))

    def check(self, name: str, *, holds: bool, detail: str = "") -> None:
        """Add something that must hold, on a CPU too."""
        self._add(Figure(name, bool(holds), detail, target=True))

    def leave_out(self, what: str, why: str) -> None:
        """Note what this part does not measure here."""
        self.missing[what] = why
        print(f"  {what}: left out, {why}", flush=True)
        self.write()

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Run one section; what it raises is noted, and the part goes on."""
        try:
            yield
        except ImportError as error:
            self.leave_out(name, package_missing(error))
        except Exception as error:  # noqa: BLE001  a library may raise anything on a new device
            self.failures[name] = describe(error)
            print(f"  {name}: FAILED, {describe(error)}", flush=True)
            self.write()

    def end(self, outcome: Outcome, why: str = "") -> None:
        """Note how the part ended."""
        self.outcome, self.why = outcome, why
        self.write()

    def write(self) -> None:
        """Replace the file by the present figures."""
        figures = [asdict(figure) | {"met": figure.met} for figure in self.figures]
        record = {
            "part": self.part,
            "outcome": self.outcome,
            "why": self.why,
            "rehearsal": self.rehearsal,
            "seconds": round(time.monotonic() - self.began, 1),
            "figures": figures,
            "missing": self.missing,
            "failures": self.failures,
            "series": self.series,
        }
        fresh = self.file.with_suffix(".part")
        fresh.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.file)

    def _add(self, figure: Figure) -> None:
        self.figures.append(figure)
        print(f"  {line(figure)}", flush=True)
        self.write()


def describe(error: BaseException, limit: int = 300) -> str:
    """Return `Type: first line of its message`; nothing but the standard library is needed to report."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:limit]


def package_missing(error: ImportError) -> str:
    """Return what is missing, and the remedy."""
    return f"a package is missing ({describe(error)}): run `make gpu-bundle`"


def line(figure: Figure) -> str:
    """Return a figure as a line of text."""
    if isinstance(figure.target, bool):
        detail = f" ({figure.unit})" if figure.unit else ""
        return f"{figure.name}: {'holds' if figure.met else 'DOES NOT HOLD'}{detail}"
    shown = f"{figure.name}: {figure.value:,}" if isinstance(figure.value, int | float) else f"{figure.name}: {figure.value}"  # fmt: skip
    shown = f"{shown} {figure.unit}".rstrip()
    if figure.target is None:
        return shown
    bound = "at most" if figure.at_most else "at least"
    verdict = {True: "met", False: "MISSED", None: "not judged here"}[figure.met]
    return f"{shown}, target {bound} {figure.target:g}: {verdict}"
