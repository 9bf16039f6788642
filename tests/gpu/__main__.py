"""`make gpu`: proves on a GPU what needs one, in one command of nine minutes; `--rehearse` runs the same code on a CPU.

It prints what the machine has, then runs the parts in order of value, each in a process of its own with a time limit.
Each part writes its record as it goes, so that a run that is cut off still reports. The card's settings are read only.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.gpu import pictures
from tests.gpu.plan import (
    FOLDER,
    FOUND_SECONDS,
    LEAST_SECONDS,
    PARTS,
    REHEARSAL_SECONDS,
    RUN_SECONDS,
    Part,
    budget,
)
from tests.gpu.record import Outcome, Record
from tests.gpu.table import succeeded, table

LOG_CHARACTERS = 4000
"""Kept of the end of each pod's log."""


def main() -> int:
    """Run all parts; the exit status is 0 if all are complete and all checks hold."""
    given = _arguments()
    folder: Path = given.folder.resolve()
    _clear(folder)
    began = time.monotonic()
    run_seconds = REHEARSAL_SECONDS * len(PARTS) if given.rehearse else RUN_SECONDS
    print(f"{len(given.only)} parts, at most {budget():g} s on a device; results in {folder}\n")
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": ""} if given.rehearse else {})}
    _run(["tests.gpu.machine", str(folder)], FOUND_SECONDS if not given.rehearse else REHEARSAL_SECONDS, environment)  # fmt: skip
    records: dict[str, Any] = {}
    for part in PARTS:
        if part.name not in given.only:
            continue
        left = began + run_seconds - time.monotonic()
        limit = min(left, REHEARSAL_SECONDS if given.rehearse else part.seconds)
        records[part.name] = _part(part, folder, limit, environment, rehearse=given.rehearse)
        _keep(folder, records)
    print(f"\n{table(records)}")
    print(pictures.draw(records, _title(folder), folder / "gpu.png"))
    _keep(folder, records)
    print(f"{time.monotonic() - began:.0f} s; records in {folder}")
    return 0 if succeeded(records) else 1


def _arguments() -> argparse.Namespace:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh", description=__doc__)
    parser.add_argument("--rehearse", action="store_true", help="tiny sizes on a CPU, without targets for speed")  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PART", help=f"of {', '.join(names)}")  # fmt: skip
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of the results")
    return parser.parse_args()


def _clear(folder: Path) -> None:
    """Remove an earlier run's results; models of random weights stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in (*folder.glob("*.json"), *folder.glob("gpu.*")):
        file.unlink(missing_ok=True)
    for pod in folder.glob("pod-*"):
        shutil.rmtree(pod, ignore_errors=True)


def _part(
    part: Part, folder: Path, limit: float, environment: dict[str, str], *, rehearse: bool
) -> dict[str, Any]:
    """Run one part and return its record."""
    file = folder / f"{part.name}.json"
    if limit < LEAST_SECONDS:
        Record(part.name, file, rehearsal=rehearse).end(Outcome.CUT_OFF, "the run had no time left")
        return _read(file)
    print(f"\n{part.name}: {part.title} (at most {limit:.0f} s)", flush=True)
    words = ["tests.gpu.part", part.name, str(folder), f"{limit:.0f}"]
    code = _run(words + ["--rehearse"] * rehearse, limit, environment)
    record = _read(file) if file.exists() else {}
    if code is None or not record or record["outcome"] == Outcome.RUNNING:
        why = f"its limit of {limit:.0f} s" if code is None else f"its process ended with {code}"
        outcome = Outcome.CUT_OFF if code is None else Outcome.FAILED
        if not record:
            Record(part.name, file, rehearsal=rehearse).write()
            record = _read(file)
        record |= {"outcome": outcome, "why": why}
        file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if record["why"]:
        print(f"  {record['outcome']}: {record['why']}", flush=True)
    return record


def _run(words: list[str], limit: float, environment: dict[str, str]) -> int | None:
    """Run a module in a process group of its own; return its exit status, or None if it was cut off."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words], env=environment, start_new_session=True
    )
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError):  # with the pods that it may have left
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(file: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return record


def _title(folder: Path) -> str:
    file = folder / "machine.json"
    if not file.exists():
        return "Penstock on an unknown machine"
    facts = _read(file)
    name = facts["cuda"].get("name", "a CPU, rehearsed")
    return f"Penstock on {name}, {facts['date']}, torch {facts['packages']['torch']}, transformers {facts['packages']['transformers']}"


def _pod_logs(folder: Path) -> str:
    """Return the end of each pod's log."""
    logs = ((log.parent.name, log.read_text(errors="replace")) for log in sorted(folder.glob("pod-*/log")))  # fmt: skip
    return "".join(f"{name}\n{text[-LOG_CHARACTERS:]}\n" for name, text in logs)


def _keep(folder: Path, records: dict[str, Any]) -> None:
    """Write everything so far into one file with its table, and copy both and the picture to $OUT if that is set."""
    machine = folder / "machine.json"
    whole = {"machine": _read(machine) if machine.exists() else None, "parts": records}
    (folder / "gpu.json").write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    (folder / "gpu.txt").write_text(table(records) + "\n", encoding="utf-8")
    (folder / "gpu.pods.txt").write_text(_pod_logs(folder), encoding="utf-8")
    out = os.environ.get("OUT")
    if out:
        for file in folder.glob("gpu.*"):
            with contextlib.suppress(OSError):
                shutil.copy(file, out)


if __name__ == "__main__":
    sys.exit(main())
