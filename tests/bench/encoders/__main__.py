"""`make bench-encoders`: text encoders over HTTP compared with raw torch on the same core, as ratios of medians of one run.

Each ratio is reported by wall-clock time, which the targets refer to, and by processor time, which is robust on a shared
machine but does not include waiting.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from penstock_runtime.serving.limits import FIRST_LIMITS
from tests.bench.encoders import chart
from tests.bench.encoders.contenders import contenders, write
from tests.bench.encoders.subjects import ENCODER, SUBJECTS, Subject
from tests.bench.http import show
from tests.bench.http.calibrate import calibration
from tests.bench.http.environments import NotInstalledError, install
from tests.bench.http.overload import GROWN_TARGET, QUEUE_DEPTH, Peak, mebibytes_grown, overload
from tests.bench.http.plan import BUILD, SERVER_CORE, Contender
from tests.bench.http.running import DoesNotServeError, load, serving

MODELS = BUILD / "models"
Rates = dict[str, dict[int, list[float]]]
ByServer = Mapping[str, Mapping[int, float]]
"""Rows a second by server and connections."""
Line = tuple[str, float | None, float | None, float]
"""Description, numerator, denominator and minimum of a ratio."""
BINARY = ", binary"
"""Suffix of the names of servers that receive binary requests."""
GOODPUT_TARGET = 0.95
"""Minimum goodput of the encoder at three times its peak load, relative to the peak."""
console = Console(width=120)


def main() -> None:
    """Run the selected measurements."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.encoders", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of one measurement")
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 64, 256])
    parser.add_argument("--subject", choices=[subject.name for subject in SUBJECTS])
    parser.add_argument("--only", default="", help="only servers whose name contains this")
    parser.add_argument(
        "--decisive",
        action="store_true",
        help="ours and the best peer, two short rounds: 10 minutes",
    )
    parser.add_argument(
        "--overload-seconds", type=float, default=60.0, help="of the encoder's overload; 0: none"
    )
    parser.add_argument(
        "--queue-depth",
        type=int,
        default=QUEUE_DEPTH,
        help=f"of the overload; a pool's default is {FIRST_LIMITS.max_queue_depth}",
    )
    options = parser.parse_args()
    if options.decisive:
        options.rounds, options.seconds = min(options.rounds, 2), min(options.seconds, 3.0)
    machine = calibration()
    results = {
        subject.name: _measure(subject, options)
        for subject in SUBJECTS
        if options.subject in (None, subject.name)
    }
    BUILD.mkdir(parents=True, exist_ok=True)
    record = {"calibration": machine, **results}
    (BUILD / "encoders.json").write_text(json.dumps(record, indent=1) + "\n")
    console.print(show.machine(machine))
    for name, figures in results.items():
        _show(name, figures)
    console.print(f"figures: {BUILD / 'encoders.json'}, chart: {chart.draw(results, BUILD)}")


def _measure(subject: Subject, options: argparse.Namespace) -> dict[str, Any]:
    folder = subject.folder(MODELS)
    rounds: list[dict[str, dict[str, float]]] = []
    seen: dict[str, Rates] = {"clock": {}, "processor": {}}
    absent: dict[str, str] = {}
    for number in range(options.rounds):
        rounds.append(_raw(subject, folder, options.seconds / 4))
        for contender in contenders(subject, MODELS):
            if options.decisive and not contender.decisive:
                absent[contender.name] = "left out of the short form"
            if options.only in contender.name and contender.name not in absent:
                try:
                    _round(subject, contender, folder, options, seen)
                except (NotInstalledError, DoesNotServeError) as error:
                    absent[contender.name] = str(error)
        print(f"{subject.name}: round {number + 1} is done", file=sys.stderr)
    figures_by_kind = {
        kind: _figures(subject, [measured[kind] for measured in rounds], by)
        for kind, by in seen.items()
    }
    if (
        subject is ENCODER
        and options.overload_seconds
        and "penstock" in figures_by_kind["clock"]["rates"]
    ):
        try:
            seen_beyond = _overload(folder, figures_by_kind["clock"], options)
        except DoesNotServeError as error:
            absent["penstock, overload"] = str(error)
        else:
            figures_by_kind["clock"]["overload"] = seen_beyond
            figures_by_kind["clock"]["ratios"] += overload_lines(seen_beyond)
    return {
        **figures_by_kind["clock"],
        "absent": absent,
        "by_processor_time": figures_by_kind["processor"],
    }


def _overload(folder: Path, figures: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    ours = next(
        contender for contender in contenders(ENCODER, MODELS) if contender.name == "penstock"
    )
    by = figures["rates"]["penstock"]
    file = BUILD / "requests-overload"
    return overload(
        ours,
        Peak(*max((rate, int(connections)) for connections, rate in by.items())),
        options.overload_seconds,
        lambda contender: write(ENCODER, contender, folder, file),
        options.queue_depth,
    )


def overload_lines(seen: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of an overload, in the format of `ratios`."""
    late = seen["p99_milliseconds"] / seen["deadline_milliseconds"]
    return [
        {"line": line, "measured": round(measured, 3), "target": target}
        for line, measured, target in (
            ("3x overload: goodput / peak", seen["goodput_ratio"], GOODPUT_TARGET),
            ("3x overload: goodput / peak, by processor time a right answer", seen["goodput_ratio_by_cpu"], GOODPUT_TARGET),
            ("3x overload: accepted requests' p99 / deadline (at most)", late, 1.0),
            ("MiB grown under overload (at most)", mebibytes_grown(seen) or 0.0, GROWN_TARGET),
        )
    ]  # fmt: skip


def _figures(subject: Subject, rounds: list[dict[str, float]], seen: Rates) -> dict[str, Any]:
    """Return medians and ratios of rates of one kind."""
    raw = {way: round(median(measured[way] for measured in rounds), 1) for way in rounds[0]}
    rates = {
        name: {connections: round(median(each), 1) for connections, each in by.items()}
        for name, by in seen.items()
    }
    return {"raw": raw, "rates": rates, "ratios": ratios(subject, raw, rates)}


def _raw(subject: Subject, folder: Path, seconds: float) -> dict[str, dict[str, float]]:
    argv = ["taskset", "-c", str(SERVER_CORE), sys.executable, "-m", "tests.bench.encoders.raw"]
    done = subprocess.run(
        [*argv, subject.name, str(folder), str(seconds)],
        check=True, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    rates: dict[str, dict[str, float]] = json.loads(done.stdout)
    return rates


def _round(
    subject: Subject,
    contender: Contender,
    folder: Path,
    options: argparse.Namespace,
    seen: dict[str, Rates],
) -> None:
    if contender.package:
        install(contender.package)
    name = f"{subject.name}-{contender.body}-{contender.path.strip('/').replace('/', '-')}"
    bodies = BUILD / f"requests-{name}"
    if not bodies.exists():
        write(subject, contender, folder, bodies)
    with serving(contender, bodies) as running:
        load(running, 64, 1.0)
        for connections in options.connections:
            load_result = load(running, connections, options.seconds)
            rate = load_result["right"] / load_result["seconds"]
            print(
                f"{subject.name}: {contender.name}, {connections}: {rate:,.0f}/s", file=sys.stderr
            )
            for kind, seconds in (("clock", "seconds"), ("processor", "cpu_seconds")):
                by = seen[kind].setdefault(contender.name, {}).setdefault(connections, [])
                by.append(load_result["right"] / load_result[seconds])


def ratios(subject: Subject, raw: dict[str, float], rates: ByServer) -> list[dict[str, Any]]:
    """Return each ratio with its description and minimum.

    Servers are only compared with others that receive the same kind of body.
    """
    lines = _encoder_lines(raw, rates) if subject is ENCODER else _embedder_lines(raw, rates)
    return [
        {"line": line, "measured": round(rate / other, 3), "target": target}
        for line, rate, other, target in lines
        if rate is not None and other
    ]


def _encoder_lines(raw: dict[str, float], rates: ByServer) -> Iterator[Line]:
    packed = max(raw["packed"], raw["prepacked"])
    for kind, name in (("JSON", "penstock"), ("binary", f"penstock{BINARY}")):
        single, many = (rates.get(name, {}).get(connections) for connections in (1, 64))
        yield f"{kind}, 64 connections / untouched raw torch", many, raw["untouched"], 1.0
        yield f"{kind}, 64 connections / raw torch, packed and prepacked", many, packed, 0.95
        yield f"{kind}, 1 connection / untouched raw torch, one row", single, raw["untouched, one row"], 0.92  # fmt: skip
        yield (
            f"{kind}, 1 connection / packed raw torch, one row",
            single,
            raw["packed, one row"],
            0.92,
        )
        peer = _best_peer(rates, 64, binary=kind == "binary")
        yield f"{kind}, 64 connections / the best peer by {kind}", many, peer, 1.0


def _embedder_lines(raw: dict[str, float], rates: ByServer) -> Iterator[Line]:
    fastest = max(raw["packed"], raw["prepacked, sorted by length"])
    for connections, target in ((64, 1.25), (256, 1.15)):
        ours = rates.get("penstock", {}).get(connections)
        peer = _best_peer(rates, connections, binary=False)
        yield f"{connections} connections / the best peer", ours, peer, target
        yield f"{connections} connections / length-sorted or packed raw torch", ours, fastest, 0.95


def _best_peer(rates: ByServer, connections: int, *, binary: bool) -> float | None:
    """Return the best rate of the peers with one kind of body, or None if none was measured."""
    peer_rates = (
        by.get(connections)
        for name, by in rates.items()
        if not name.startswith("penstock") and name.endswith(BINARY) == binary
    )
    return max((rate for rate in peer_rates if rate is not None), default=None)


def _show(name: str, figures: dict[str, Any]) -> None:
    table = Table("rows a second", "1 connection", "64", "256", title=name)
    for way, rate in figures["raw"].items():
        table.add_row(f"raw torch: {way}", "", f"{rate:,.0f}", "")
    for server, by in figures["rates"].items():
        table.add_row(server, *(f"{by.get(c, 0.0):,.0f}" for c in (1, 64, 256)))
    console.print(table)
    for server, why in figures["absent"].items():
        console.print(f"[yellow]{server} takes no part: {why}[/]")
    by_cpu = {line["line"]: line["measured"] for line in figures["by_processor_time"]["ratios"]}
    for line in figures["ratios"]:
        at_most = "(at most)" in line["line"]
        good = (
            (line["measured"] <= line["target"])
            if at_most
            else (line["measured"] >= line["target"])
        )
        mark = "[green]ok[/]" if good else "[red]missed[/]"
        by_processor = (
            f"; by processor time {by_cpu[line['line']]}" if line["line"] in by_cpu else ""
        )
        console.print(
            f"  {line['line']}: {line['measured']} (target {line['target']}) {mark}{by_processor}"
        )


if __name__ == "__main__":
    main()
