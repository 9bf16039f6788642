"""Results on disk, one JSON line each, so that an interrupted bench resumes."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from penstock_simulator.law_registry import OWN
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
"""Sources that every result depends on."""
OWN_LAWS = ("operator/penstock_operator/decide/scaling",)
"""Additional sources that results of the operator's own laws depend on."""


@cache
def digest(*, own: bool) -> str:
    """Return a hash of the code that results depend on; results of other code are not reused."""
    whole = hashlib.sha256()
    for source in map(Path, WORLD + (OWN_LAWS if own else ())):
        for path in sorted(source.rglob("*.py")) or [source]:
            whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def code_of(job: Job) -> str:
    """Return the digest for a job: a baseline's result stays valid when the operator's laws change."""
    return digest(own=job.law in OWN)


def key(job: Job) -> str:
    """Return the key that identifies a job."""
    return json.dumps(asdict(job), sort_keys=True, default=str)


class ResultStore:
    """The results of earlier runs of the same code."""

    def __init__(self) -> None:
        lines = LINES.read_text(encoding="utf-8").splitlines() if LINES.is_file() else []
        entries = [
            entry
            for entry in map(json.loads, lines)
            if entry["code"] in (digest(own=False), digest(own=True))
        ]
        self._by_key: dict[tuple[str, str], dict[str, Any]] = {
            (entry["code"], entry["key"]): entry for entry in entries
        }

    def result(self, job: Job) -> Result | None:
        """Return the result of a job, or None if it was not run."""
        entry = self._by_key.get((code_of(job), key(job)))
        if entry is None:
            return None
        summary = None if entry["outcome"] is None else RunSummary(**entry["outcome"])
        return Result(job, summary, entry["fluid_gpu_hours"])


def add(results: Iterable[Result]) -> None:
    """Add results to the file."""
    LINES.parent.mkdir(parents=True, exist_ok=True)
    with LINES.open("a", encoding="utf-8") as lines:
        for result in results:
            lines.write(
                json.dumps({"code": code_of(result.job), "key": key(result.job), **as_json(result)})
                + "\n"
            )


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as a JSON object."""
    summary = None if result.outcome is None else result.outcome.as_json()
    job = json.loads(key(result.job))
    return {"job": job, "outcome": summary, "fluid_gpu_hours": result.fluid_gpu_hours}
