"""One process of the bench: loads a subject on a backend and prints figures as JSON."""

import gc
import json
import sys
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from penstock_api.types.model import ModelBackend
from penstock_runtime.engine.model import Model
from penstock_runtime.models.backends.samples import BATCH_SIZES, Batch, random_batch
from penstock_runtime.models.backends.timing import rates
from penstock_runtime.models.load import ModelOptions, load
from tests.bench.backends.subjects import SUBJECTS, Subject

MIN_RUNS = 10


def main(arguments: list[str]) -> None:
    """Load, then print figures; several backends, with commas, are compared in turns."""
    name, threads, backend, root, cache, started, seconds = arguments
    subject = next(each for each in SUBJECTS if each.name == name)
    options = ModelOptions(threads=int(threads), private_folder=Path(cache))
    if "," in backend:
        print(
            json.dumps(_compare(subject, backend.split(","), Path(root), options, float(seconds)))
        )
        return
    model = load(subject.spec(ModelBackend(backend)), name, Path(root), options)
    model.run(random_batch(model.info, 1))
    loaded = time.monotonic() - float(started)
    gc.collect()
    state = model.info.model_backend
    figures: dict[str, Any] = {
        "load_seconds": loaded,
        "memory_mib": _resident_mib("VmRSS:"),
        "peak_mib": _resident_mib("VmHWM:"),
        "state": state.model_dump(mode="json") if state else None,
    }
    if float(seconds):
        figures["batches"] = {
            rows: _timed(model, random_batch(model.info, rows), float(seconds))
            for rows in BATCH_SIZES
        }
    print(json.dumps(figures))


def _compare(
    subject: Subject, backends: list[str], root: Path, options: ModelOptions, seconds: float
) -> dict[str, list[float]]:
    models = {
        name: load(subject.spec(ModelBackend(name)), name, root, options) for name in backends
    }
    info = models[backends[0]].info
    batches = [random_batch(info, rows, seed=1) for rows in BATCH_SIZES]
    measured = rates(models, batches, time.perf_counter, seconds)
    return {name: list(series) for name, series in measured.items()}


def _timed(model: Model, batch: Batch, seconds: float) -> dict[str, float]:
    rows = len(next(iter(batch.values())))
    model.run(batch)
    model.run(batch)
    durations: list[float] = []
    until = time.perf_counter() + seconds
    while len(durations) < MIN_RUNS or time.perf_counter() < until:
        began = time.perf_counter()
        model.run(batch)
        durations.append(time.perf_counter() - began)
    p99 = quantiles(durations, n=100)[98]
    return {"rows_per_second": rows / median(durations), "p99_milliseconds": p99 * 1e3}


def _resident_mib(name: str) -> float:
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index(name) + 1]) / 1024


if __name__ == "__main__":
    main(sys.argv[1:])
