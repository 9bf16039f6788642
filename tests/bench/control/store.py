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
from tests.bench.control.plan import TRACES

LINES = Path("build/bench/control.runs.jsonl")
WORLD = (
    "operator/penstock_api/pod_contract.py",
    "operator/penstock_operator/decide/scaling/law.py",
    "operator/penstock_operator/decide/scaling/signals/attainment.py",
    "operator/penstock_operator/decide/spec/law_settings.py",
    "operator/penstock_operator/decide/spec/objectives.py",
    "operator/penstock_operator/observed.py",
    "operator/penstock_simulator",
    "tests/bench/control/plan.py",
    "tests/bench/control/jobs.py",
    "tests/bench/fit/fitted.json",
)
"""Sources that every result depends on."""
OWN_LAWS = (
    "operator/penstock_operator/decide/scaling",
    "operator/penstock_operator/decide/spec/law_settings.py",
    "operator/penstock_operator/decide/spec/objectives.py",
    "operator/penstock_operator/measured.py",
)
"""Sources of the operator's own laws and of their defaults; results of these laws depend on them too."""
CHANGES = ("tests/bench/control/ablation.py", "tests/bench/control/sensitivity.py")
"""Additional sources that results of a law with a changed or missing part depend on."""


@cache
def digest(sources: tuple[str, ...]) -> str:
    """Return a hash of the files that results depend on; results of other files are not reused."""
    whole = hashlib.sha256()
    for source in map(Path, sources):
        for path in sorted(source.rglob("*.py")) or [source]:
            whole.update(path.read_bytes())
    return whole.hexdigest()[:16]


def sources(job: Job, folder: Path) -> tuple[str, ...]:
    """Return what a result depends on, its trace in `folder` too; that of a baseline not on the operator's laws."""
    changed = job.ablated is not None or job.changed is not None
    own, changes = OWN_LAWS if job.law in OWN else (), CHANGES if changed else ()
    return (*WORLD, *own, *changes, str(folder / TRACES[job.trace]))


def key(job: Job) -> str:
    """Return the key that identifies a job."""
    return json.dumps(asdict(job), sort_keys=True, default=str)


class ResultStore:
    """The results of earlier runs of the same code on the same traces."""

    def __init__(self, folder: Path) -> None:
        """`folder` has the traces."""
        self._folder = folder
        lines = LINES.read_text(encoding="utf-8").splitlines() if LINES.is_file() else []
        self._by_key: dict[tuple[str, str], dict[str, Any]] = {
            (entry["code"], entry["key"]): entry for entry in map(json.loads, lines)
        }

    def result(self, job: Job) -> Result | None:
        """Return the result of a job, or None if it was not run."""
        entry = self._by_key.get((digest(sources(job, self._folder)), key(job)))
        if entry is None:
            return None
        summary = None if entry["outcome"] is None else RunSummary(**entry["outcome"])
        return Result(job, summary, entry["fluid_gpu_hours"])


def add(results: Iterable[Result], folder: Path) -> None:
    """Add results of the traces in `folder` to the file."""
    LINES.parent.mkdir(parents=True, exist_ok=True)
    with LINES.open("a", encoding="utf-8") as lines:
        for result in results:
            code = digest(sources(result.job, folder))
            entry = {"code": code, "key": key(result.job), **as_json(result)}
            lines.write(json.dumps(entry) + "\n")


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as a JSON object."""
    summary = None if result.outcome is None else result.outcome.as_json()
    job = json.loads(key(result.job))
    return {"job": job, "outcome": summary, "fluid_gpu_hours": result.fluid_gpu_hours}
