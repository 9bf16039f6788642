"""Results on disk, one a line, so that a bench that was stopped goes on where it was."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from penstock_simulator.laws import OWN
from penstock_simulator.outcome import RunSummary
from tests.bench.control.jobs import Job, Result

LINES = Path("build/bench/control.runs.jsonl")
WORLD = (
    "operator/penstock_operator/decide/scaling/law.py",
    "operator/penstock_operator/observed.py",
    "operator/penstock_simulator",
    "tests/bench/control/plan.py",
    "tests/bench/control/jobs.py",
    "tests/bench/fit/fitted.json",
)
"""What every result depends on."""
OWN_LAWS = ("operator/penstock_operator/decide/scaling",)
"""What those of the operator's own laws depend on beside it."""


@cache
def digest(*, own: bool) -> str:
    """Return a name for the code that results depend on: those of other code are not taken up again."""
    whole = hashlib.sha256()
    for source in map(Path, WORLD + (OWN_LAWS if own else ())):
        for path in sorted(source.rglob("*.py")) or [source]:
            whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def code_of(job: Job) -> str:
    """Return the digest that holds for a job: a baseline's result outlives a change of the operator's laws."""
    return digest(own=job.law in OWN)


def key(job: Job) -> str:
    """Return what tells one job from another."""
    return json.dumps(asdict(job), sort_keys=True, default=str)


class ResultStore:
    """The results of earlier runs of the same code."""

    def __init__(self) -> None:
        lines = LINES.read_text(encoding="utf-8").splitlines() if LINES.is_file() else []
        held = [
            one
            for one in map(json.loads, lines)
            if one["code"] in (digest(own=False), digest(own=True))
        ]
        self._by_key: dict[tuple[str, str], dict[str, Any]] = {
            (one["code"], one["key"]): one for one in held
        }

    def result(self, job: Job) -> Result | None:
        """Return what came of a job; None: it was not run."""
        held = self._by_key.get((code_of(job), key(job)))
        if held is None:
            return None
        found = None if held["outcome"] is None else RunSummary(**held["outcome"])
        return Result(job, found, held["fluid_gpu_hours"])


def keep(results: Iterable[Result]) -> None:
    """Add results to the file."""
    LINES.parent.mkdir(parents=True, exist_ok=True)
    with LINES.open("a", encoding="utf-8") as lines:
        for one in results:
            lines.write(
                json.dumps({"code": code_of(one.job), "key": key(one.job), **as_json(one)}) + "\n"
            )


def as_json(one: Result) -> dict[str, Any]:
    """Return a result as JSON knows it."""
    found = None if one.outcome is None else one.outcome.as_json()
    job = json.loads(key(one.job))
    return {"job": job, "outcome": found, "fluid_gpu_hours": one.fluid_gpu_hours}
