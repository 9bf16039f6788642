"""`make bench-fit`: fits the simulator's service model to a run of the real runtime, and compares both.

A calibration run fits a, c, the noise and the overhead. Then nine runs with other seeds, three loads by three caps, are
compared by their 50th and 99th percentiles. The target is a difference of at most 10 % each.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock_simulator.batch_time import ServiceModel
from tests.bench.fit.model import Compared, compared, fitted, grown
from tests.bench.fit.runtime import BenchRuntime, running
from tests.bench.fit.traffic import poisson, send

OUT = Path("build/bench/fit.json")
KEPT = Path("tests/bench/fit/fitted.json")
"""The service model for the control bench."""
CAPS = (8, 16, 32)
LOADS = (0.3, 0.6, 0.85)
TARGET = 0.10


def main() -> int:
    """Run the bench; the exit status is 1 if a percentile misses the target or an answer was lost."""
    args = _arguments()
    console = Console()
    with running(args.a, args.c, max(CAPS)) as runtime:
        service = _calibrated(runtime, args)
        comparisons, lost = _measured(runtime, service, args, console)
    console.print(_table(comparisons))
    worst = max(abs(comparison.off) for comparison in comparisons)
    console.print(f"a {1000 * service.a:.2f} ms, c {1000 * service.c:.3f} ms, noise {100 * service.sigma:.2f} %, "
                  f"overhead {1000 * service.overhead:.2f} ms; worst {100 * worst:.1f} %, target {100 * TARGET:.0f} %")  # fmt: skip
    result = {
        "emulated": {"a_milliseconds": args.a, "c_milliseconds": args.c}, "service": asdict(service), "lost": lost,
        "worst": worst, "target": TARGET, "runs": [asdict(comparison) | {"off": comparison.off} for comparison in comparisons],
    }  # fmt: skip
    OUT.parent.mkdir(parents=True, exist_ok=True)
    for path in (OUT, KEPT) if args.keep else (OUT,):
        path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 1 if worst > TARGET or lost else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.fit", description=__doc__)
    parser.add_argument("--a", type=float, default=100.0, help="of the accelerator, milliseconds")
    parser.add_argument("--c", type=float, default=10.0, help="of the accelerator, ms a row")
    parser.add_argument("--seconds", type=float, default=25.0, help="of each of ten runs")
    parser.add_argument("--keep", action="store_true", help=f"write {KEPT} too")
    return parser.parse_args()


def _calibrated(runtime: BenchRuntime, args: argparse.Namespace) -> ServiceModel:
    """Fit the model to one run at medium load, which has batches of many sizes."""
    cap = max(CAPS)
    before = runtime.curve()
    run = send(runtime.infer, poisson(_rate(args, cap, 0.5), args.seconds, seed=100))
    return fitted(grown(before, runtime.curve()), run, cap)


def _measured(
    runtime: BenchRuntime, service: ServiceModel, args: argparse.Namespace, console: Console
) -> tuple[list[Compared], int]:
    comparisons, lost, seed = list[Compared](), 0, 0
    for cap in CAPS:
        runtime.set_cap(cap)
        for load in LOADS:
            seed += 1
            run = send(runtime.infer, poisson(_rate(args, cap, load), args.seconds, seed))
            console.print(f"cap {cap}, load {load:g}: {len(run.sent)} answers")
            comparisons += compared(service, run, cap, load)
            lost += run.lost
    return comparisons, lost


def _rate(args: argparse.Namespace, cap: int, load: float) -> float:
    """Return the rate in requests a second for a share of the capacity at a cap."""
    seconds = (float(args.a) + float(args.c) * cap) / 1000
    return load * cap / seconds


def _table(comparisons: list[Compared]) -> Table:
    table = Table(title="the runtime and the simulator, the same arrivals", title_justify="left")
    for name in ("cap", "load", "requests", "percentile", "runtime", "simulator", "off", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    for comparison in comparisons:
        style = "green" if abs(comparison.off) <= TARGET else "red"
        table.add_row(
            str(comparison.cap),
            f"{comparison.load:g}",
            str(comparison.requests),
            f"p{comparison.percentile}",
            f"{1000 * comparison.measured:.0f} ms",
            f"{1000 * comparison.simulated:.0f} ms",
            f"[{style}]{100 * comparison.off:+.1f} %[/]",
            f"{100 * TARGET:.0f} %",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
