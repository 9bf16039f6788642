"""The command line of one simulation, as values. An edge."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_simulator.arrivals import MEAN_REPLICAS
from penstock_simulator.scenario import ClientBehaviour, ColdStarts, Loss, Routing, Scenario
from penstock_simulator.service import ServiceModel

CURVE = (100.0, 10.0)
"""Invented, in milliseconds; the simulated figures of docs/design/control-law.md#findings are for this one."""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `simulate`."""
    found = argparse.ArgumentParser(prog="penstock_simulator", description=__doc__)
    commands = found.add_subparsers(dest="command", required=True)
    one = commands.add_parser("simulate", help="run laws over a trace of arrivals")
    one.add_argument("--trace", type=Path, required=True, help="file of arrival times")
    one.add_argument(
        "--law", nargs="+", default=["CapacityAtObjective"], help="names; see docs/simulator.md"
    )
    one.add_argument(
        "--curve", type=_pair, default=CURVE, metavar="A,C", help="t(b) = A + C*b in ms"
    )
    one.add_argument(
        "--objective-ms", type=int, default=1000, help="request latency that counts as on time"
    )
    one.add_argument("--cap-max", type=int, default=32, help="largest batch any law may use")
    one.add_argument("--window-ms", type=int, default=5, help="batching window")
    one.add_argument("--seed", type=int, nargs="+", default=[1])
    one.add_argument("--routing", type=Routing, choices=list(Routing), default=Routing.CONNECTION)
    one.add_argument("--connections", type=int, default=ClientBehaviour().connections)
    one.add_argument("--cold-median", type=float, default=60.0, metavar="SECONDS")
    one.add_argument(
        "--mean-replicas",
        type=float,
        default=MEAN_REPLICAS,
        help="scale to this mean fluid count; 0: as it is",
    )
    one.add_argument("--start", type=int, default=10, help="replicas Ready at the beginning")
    one.add_argument("--min-replicas", type=int, default=1)
    one.add_argument("--max-replicas", type=int, default=64)
    one.add_argument("--loss", type=float, default=0.0, help="share of samples lost")
    one.add_argument(
        "--outage",
        type=_pair,
        nargs="*",
        default=[],
        metavar="FROM,UNTIL",
        help="no signals, in seconds",
    )
    one.add_argument(
        "--seconds", type=float, default=None, help="only the first so many seconds of the trace"
    )
    one.add_argument("--json", type=Path, default=Path("build/simulate.json"))
    one.add_argument("--plot", type=Path, default=Path("build/simulate.png"))
    return found


def _pair(text: str) -> tuple[float, float]:
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be two numbers joined by a comma"
        ) from None
    if first < 0 or second < 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative")
    return first, second


def service(curve: Sequence[float]) -> ServiceModel:
    """Return the service model of a curve in milliseconds."""
    return ServiceModel(curve[0] / 1000.0, curve[1] / 1000.0)


def settings(args: argparse.Namespace) -> LawSettings:
    """Return what the law obeys; what is not named is the built-in of a pool."""
    return LawSettings(
        objective_milliseconds=args.objective_ms,
        size_min=1,
        size_max=args.cap_max,
        max_queue_delay_milliseconds=args.window_ms,
        min_replicas=args.min_replicas,
        max_replicas=args.max_replicas,
        low_percent=50,
        high_percent=90,
        target_per_replica=4,
        stabilization_seconds=300,
        max_percent_per_minute=25,
    )


def scenario(args: argparse.Namespace, seed: int) -> Scenario:
    """Return the world that the arguments ask for."""
    return Scenario(
        service=service(args.curve),
        settings=settings(args),
        start_replicas=args.start,
        routing=args.routing,
        cold=ColdStarts(median_seconds=args.cold_median),
        clients=ClientBehaviour(connections=args.connections),
        loss=Loss(share=args.loss, outages=tuple(args.outage)),
        seed=seed,
    )
