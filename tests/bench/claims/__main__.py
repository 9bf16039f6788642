"""`make bench-claims`: batching, continuous batching, compilation, tuning and scaling against the claims of the first documents.

Every pod is a runtime process on one core with the load generator on the other. The settings of a model run in turns, and a
ratio is the median of the ratios of the rounds. GPU-hours are simulated.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from math import isinf
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from tests.bench.claims import generation, one_shot, picture, pools
from tests.bench.claims.claims import ClaimLine, PoolCost, Setting, judged
from tests.bench.control import commits
from tests.bench.http.plan import BUILD

OUT: Final = BUILD / "claims.json"
SECONDS: Final = 1800.0
QUICK_SECONDS: Final = 1200.0


def main() -> int:
    """Run the bench and print the tables."""
    args = _arguments()
    console = Console()
    console.width = max(console.width, 150)
    began, load = time.monotonic(), [os.getloadavg()[0]]
    settings: list[Setting] = []
    absent: dict[str, str] = {}
    for subject in one_shot.subjects():
        if args.only in subject.name:
            measured = one_shot.measure(subject, args.rounds, args.seconds, args.tuner_minutes)
            _collect(subject.name, measured, settings, absent)
            load.append(os.getloadavg()[0])
    if args.only in "generation":
        _collect("generation", generation.measure(args.rounds), settings, absent)
        load.append(os.getloadavg()[0])
    costs = list(pools.costs(QUICK_SECONDS if args.quick else SECONDS)) if args.only in "pools" else []  # fmt: skip
    lines = judged(settings, costs)
    for table in (_settings(settings), _pools(costs), _verdicts(lines)):
        console.print(table)
    for name, why in absent.items():
        console.print(f"[red]{name}: not measured: {why}[/]")
    minutes = (time.monotonic() - began) / 60
    part = f", only {args.only}" if args.only else ""
    footer = f"make bench-claims{part}, medians of {args.rounds} rounds of {args.seconds:g} s; {os.cpu_count()} cores, load {min(load):.0f} to {max(load):.0f}; costs simulated"
    files = picture.draw(lines, footer, args.pictures)
    _keep(args, settings, costs, lines, load)
    console.print(f"{minutes:.1f} minutes, {footer}; figures {OUT}, pictures {', '.join(map(str, files))}")  # fmt: skip
    return 0


def _collect(
    name: str, measured: Iterable[Setting], settings: list[Setting], absent: dict[str, str]
) -> None:
    began = time.monotonic()
    try:
        settings.extend(measured)
    except (RuntimeError, OSError) as error:
        absent[name] = str(error)[-1500:]
    print(f"{name} ({time.monotonic() - began:.0f} s)", file=sys.stderr)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.claims", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two short rounds: half the time")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float, help="seconds of one measurement")
    parser.add_argument("--tuner-minutes", type=float, help="time of the tuner for each model")
    parser.add_argument("--only", default="", help="a model, generation, or pools")
    parser.add_argument("--pictures", type=Path, default=BUILD, help="folder of the pictures")
    args = parser.parse_args()
    args.rounds = args.rounds or (2 if args.quick else 3)
    args.seconds = args.seconds or (2.0 if args.quick else 3.0)
    args.tuner_minutes = args.tuner_minutes or (0.5 if args.quick else 1.5)
    return args


def _settings(settings: Sequence[Setting]) -> Table:
    table = Table(title="settings, medians")
    for heading in ("model", "setting", "limits", "rate", "", "requests", "batch", "ms a batch", "busy", "p50 ms", "p99 ms"):  # fmt: skip
        table.add_column(heading)
    for each in settings:
        samples = each.samples
        latencies = (
            _median([sample.p50_milliseconds for sample in samples]),
            _median([sample.p99_milliseconds for sample in samples]),
        )
        table.add_row(
            each.subject,
            each.name,
            each.detail,
            f"{each.rate:,.0f}",
            each.unit,
            f"{sum(sample.requests for sample in samples):,}",
            f"{median(sample.batch_size for sample in samples):.1f}",
            f"{median(sample.batch_milliseconds for sample in samples):.2f}",
            f"{100 * each.use:.0f} %",
            *latencies,
        )
    return table


def _median(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):,.1f}" if known else "-"


def _pools(costs: Sequence[PoolCost]) -> Table:
    table = Table(title="pools, simulated: 100 + 10 b ms, 99 % within 1 s, starts of 60 s, gateway")
    for heading in ("trace", "GPU-hours", "on time", "busy", "fixed count", "its GPU-hours", "on time", "busy"):  # fmt: skip
        table.add_column(heading)
    for each in costs:
        table.add_row(
            each.trace,
            f"{each.law_hours:.2f}",
            f"{100 * each.law_attainment:.2f} %",
            f"{100 * each.law_use:.0f} %",
            str(each.fixed_count),
            f"{each.fixed_hours:.2f}",
            f"{100 * each.fixed_attainment:.2f} %",
            f"{100 * each.fixed_use:.0f} %",
        )
    return table


def _verdicts(lines: Sequence[ClaimLine]) -> Table:
    table = Table(title="claims")
    for heading in ("claim", "line", "measured", "range of the rounds", ""):
        table.add_column(heading)
    for line in lines:
        verdict = "[green]reached[/]" if line.met else "[red]missed[/]"
        late = isinf(line.measured)
        reach = "-" if late else f"{line.low:.2f} to {line.high:.2f}"
        measured = "objective missed" if late else f"{line.measured:.2f}"
        table.add_row(line.claim.text, line.line, measured, reach, verdict)
    return table


def _keep(
    args: argparse.Namespace,
    settings: Sequence[Setting],
    costs: Sequence[PoolCost],
    lines: Sequence[ClaimLine],
    load: Sequence[float],
) -> None:
    record: dict[str, Any] = {
        "commit": commits.head(),
        "arguments": vars(args),
        "load": list(load),
        "cores": os.cpu_count(),
        "settings": [asdict(each) for each in settings],
        "pools": [asdict(each) for each in costs],
        "claims": [{**asdict(line), "met": line.met} for line in lines],
    }
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(record, indent=1, default=str) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
