"""`make bench-variants`: the cost of CapacityAtObjective with the cheapest mix against the cheapest fixed mix of unlike replicas."""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from penstock_simulator.arrivals import scaled
from penstock_simulator.pods.routing import Times
from penstock_simulator.scenario import Routing
from penstock_simulator.traces import read_trace
from penstock_simulator.variants.simulation import LawPolicy, simulate_variants
from tests.bench.control import commits
from tests.bench.control import plan as control
from tests.bench.control.__main__ import STAND_INS, SYNTHETIC, WIDTH
from tests.bench.traces import synthetic
from tests.bench.variants import plan
from tests.bench.variants.fixed import Counts, attaining_mixes, cost

OUT = Path("build/bench/variants.json")
QUICK_SECONDS = 1200.0
HOUR = 3600.0


def main() -> int:
    """Run the bench, on synthetic traces where the public ones are missing."""
    args = _arguments()
    console = Console()
    console.width = max(console.width, WIDTH)
    missing = [name for name in control.TRACES.values() if not (args.traces / name).is_file()]
    if missing:
        console.print(f"no {', '.join(missing)} in {args.traces}: {STAND_INS}")
        args.traces = synthetic.write(SYNTHETIC)
    console.print(f"commit {commits.head()}; {args.routing} routing; seed {args.seed}")
    rows = []
    for name, file in control.TRACES.items():
        arrivals = _arrivals(args.traces / file, args.seconds, args.seed)
        rows += _trace(args, name, arrivals)
        console.print(_table([row for row in rows if row["trace"] == name]))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    console.print(f"figures {OUT}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.bench.variants", description=__doc__)
    parser.add_argument("--traces", type=Path, required=True, help="the folder with the traces")
    parser.add_argument("--seconds", type=float, default=QUICK_SECONDS, help="length of each trace")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--routing",
        type=Routing,
        choices=[Routing.LEAST_REQUEST, Routing.CONNECTION],
        default=Routing.LEAST_REQUEST,
    )
    return parser.parse_args()


def _arrivals(path: Path, seconds: float, seed: int) -> Times:
    times = read_trace(path).times
    times = times[times <= seconds]
    return scaled(times, plan.MEAN_ROWS * float(times[-1]), seed)


def _trace(args: argparse.Namespace, name: str, arrivals: Times) -> list[dict[str, object]]:
    first = next(iter(plan.PRICES))
    known = plan.scenario(first, args.seed, args.routing, seconds=args.seconds)
    mixes = attaining_mixes(known, arrivals)
    rows = []
    for prices in plan.PRICES:
        scenario = plan.scenario(prices, args.seed, args.routing, seconds=args.seconds)
        run = simulate_variants(scenario, LawPolicy(scenario), arrivals)
        hours = float(arrivals[-1]) / HOUR
        best = min(mixes, key=lambda mix: cost(mix, plan.PRICES[prices], hours), default=None)
        fixed = None if best is None else cost(best, plan.PRICES[prices], hours)
        rows.append({
            "trace": name, "prices": prices, "attainment": run.summary.attainment, "cost": run.cost,
            "replica_hours": dict(run.replica_hours), "fixed": best, "fixed_cost": fixed,
            "ratio": None if not fixed else run.cost / fixed, "mixes": len(mixes),
        })  # fmt: skip
    return rows


def _table(rows: list[dict[str, object]]) -> Table:
    table = Table(title=f"{rows[0]['trace']}: {rows[0]['mixes']} fixed mixes attain at the border")
    for heading in ("prices", "attainment", "cost", "replica-hours", "cheapest fixed", "its cost", "ratio"):  # fmt: skip
        table.add_column(heading)
    for row in rows:
        table.add_row(
            str(row["prices"]),
            f"{row['attainment']:.4f}",
            f"{row['cost']:.2f}",
            _counts(row["replica_hours"]),
            _counts(row["fixed"]),
            "-" if row["fixed_cost"] is None else f"{row['fixed_cost']:.2f}",
            "-" if row["ratio"] is None else f"{row['ratio']:.2f}",
        )
    return table


def _counts(value: object) -> str:
    counts: Counts = value if isinstance(value, dict) else {}
    return ", ".join(f"{count:.3g} {name}" for name, count in counts.items() if count)


if __name__ == "__main__":
    sys.exit(main())
