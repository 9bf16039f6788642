"""`make bench-backends`: backends of one-shot models: rate, p99, load time, memory and error, each in a process of its own.

`Auto` is compared with the best backend by a second measurement, in turns in one process; loads from the cache with loads
of eager torch, from the start of the process to the first answer, imports included.
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock_api.types.model import ModelBackend
from tests.bench.backends.subjects import SUBJECTS, Subject
from tests.bench.http.plan import BUILD

EAGER, AUTO = ModelBackend.EAGER, ModelBackend.AUTO
NAMED = (EAGER, ModelBackend.OPENVINO, ModelBackend.ONNX_RUNTIME, ModelBackend.COMPILE)
LOADS = 3
AUTO_TARGET, LOAD_TARGET = 0.97, 1.2
console = Console(width=130)


def main() -> None:
    """Measure, print the table and write `build/bench/backends.json`."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.backends", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one batch size")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--subject", nargs="*", default=[subject.name for subject in SUBJECTS])
    parser.add_argument(
        "--types", action="store_true", help="compare data types instead of backends"
    )
    options = parser.parse_args()
    models, cache = BUILD / "backends" / "models", BUILD / "backends" / "compiled"
    models.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(cache, ignore_errors=True)
    results = []
    for subject in SUBJECTS:
        if subject.name not in options.subject:
            continue
        if not (models / subject.path).exists():
            subject.write(models / subject.path)
        for threads in options.threads:
            if options.types:
                _types(subject, threads, models, cache, options.seconds)
                continue
            results.append(_measure(subject, threads, models, cache, options.seconds))
            show(results[-1])
            (BUILD / "backends.json").write_text(json.dumps(results, indent=1) + "\n")
    console.print(f"figures: {BUILD / 'backends.json'}")


def _types(subject: Subject, threads: int, models: Path, cache: Path, seconds: float) -> None:
    """Print a table of every backend in every data type that it has."""
    argv = ["-m", "tests.bench.backends.types", subject.name, str(threads), str(models), str(cache), str(20 * seconds)]  # fmt: skip
    figures = _figures(argv, threads)
    (BUILD / f"types-{subject.name}-{threads}.json").write_text(json.dumps(figures, indent=1))
    table = Table("backend", "rows/s at 1 / 8 / 32", "error", title=f"{subject.name}, {threads} thread(s)")  # fmt: skip
    for label, each in figures.items():
        if "rows_per_second" in each:
            error = "" if each["error"] is None else f"{each['error']:.1e}"
            table.add_row(label, " / ".join(f"{rate:,.0f}" for rate in each["rows_per_second"]), error)  # fmt: skip
        else:
            table.add_row(label, each["reason"])
    console.print(table)


def _measure(
    subject: Subject, threads: int, models: Path, cache: Path, seconds: float
) -> dict[str, Any]:
    def run(backend: str, seconds: float) -> dict[str, Any]:
        return _worker([subject.name, str(threads), backend, str(models), str(cache)], seconds)

    backends: dict[str, dict[str, Any]] = {}
    for name in NAMED:
        built = run(name, 0.0)
        backends[name] = run(name, seconds) | {"first_load_seconds": built["load_seconds"]}
    first = run(AUTO, 0.0)  # measures what is compiled already
    loads: dict[str, list[float]] = {EAGER: [], AUTO: []}
    for _ in range(LOADS):  # in turns, so that other load on the machine affects both
        loads[EAGER].append(run(EAGER, 0.0)["load_seconds"])
        loads[AUTO].append(run(AUTO, 0.0)["load_seconds"])
    compared = run(",".join(NAMED), 20 * seconds)
    taken = first["state"]["name"]
    best = max(compared, key=lambda name: _mean(compared[name]))
    return {
        "subject": subject.name,
        "threads": threads,
        "backends": backends,
        "auto": {
            "took": taken,
            "best": best,
            "over_best": _mean(compared[taken]) / _mean(compared[best]),
            "compared": compared,
            "state": first["state"],
            "measuring_seconds": first["load_seconds"],
            "eager_load_seconds": median(loads[EAGER]),
            "cached_load_seconds": median(loads[AUTO]),
            "cached_over_eager": median(loads[AUTO]) / median(loads[EAGER]),
        },
    }


def _worker(arguments: list[str], seconds: float) -> dict[str, Any]:
    argv = ["-m", "tests.bench.backends.worker", *arguments, str(time.monotonic()), str(seconds)]
    return _figures(argv, int(arguments[1]))


def _figures(arguments: list[str], threads: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        check=True, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


def _mean(rates: list[float]) -> float:
    return math.exp(sum(map(math.log, rates)) / len(rates))


def show(result: dict[str, Any]) -> None:
    """Print one subject at one number of threads."""
    columns = (
        "backend",
        "rows/s at 1 / 8 / 32",
        "p99 ms",
        "load s, first",
        "cached",
        "MiB",
        "error",
    )
    table = Table(*columns, title=f"{result['subject']}, {result['threads']} thread(s)")
    for name, figures in result["backends"].items():
        batches = figures["batches"].values()
        candidates = figures["state"]["candidates"]
        error = candidates[0]["greatest_error"] if candidates else None
        table.add_row(
            name,
            " / ".join(f"{batch['rows_per_second']:,.0f}" for batch in batches),
            " / ".join(f"{batch['p99_milliseconds']:.2f}" for batch in batches),
            f"{figures['first_load_seconds']:.1f}",
            f"{figures['load_seconds']:.1f}",
            f"{figures['memory_mib']:.0f}",
            "" if error is None else f"{error:.0e}",
        )
    auto = result["auto"]
    console.print(table)
    console.print(
        f"Auto took {auto['took']} after measuring for {auto['measuring_seconds']:.0f} s; over the best ({auto['best']}):"
        f" {auto['over_best']:.3f} (target {AUTO_TARGET}); its load from the cache {auto['cached_load_seconds']:.1f} s,"
        f" over eager torch's {auto['cached_over_eager']:.2f} (at most {LOAD_TARGET})"
    )


if __name__ == "__main__":
    main()
