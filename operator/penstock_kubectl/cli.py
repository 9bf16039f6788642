"""The command line as values. An edge."""

import argparse
from pathlib import Path

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EPILOG = """examples:
  kubectl penstock explain chat -n team-a
  kubectl penstock simulate chat -n team-a --policy proposed.yaml --last 6h --plot proposed.html
  kubectl penstock simulate chat -n team-a --policy proposed.yaml --trace arrivals.txt
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `kubectl penstock`."""
    found = argparse.ArgumentParser(
        prog="kubectl penstock",
        description="Why a pool's control loop did what it did, and what it would do under other policies.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = found.add_subparsers(dest="command", required=True)
    explain = commands.add_parser("explain", help="why the pool's valves stand as they do")
    _common(explain)
    explain.add_argument("--last", type=duration, default=3600.0, help="of history, such as 1h")
    simulate = commands.add_parser(
        "simulate", help="what policies would have done on the pool's history, or on a trace"
    )
    _common(simulate)
    simulate.add_argument(
        "--policy", type=Path, action="append", default=[], metavar="FILE",
        help="InferencePolicy manifests, in the place of their namesakes in the cluster",
    )  # fmt: skip
    simulate.add_argument("--trace", type=Path, help="a file of arrival times in place of history")
    simulate.add_argument("--last", type=duration, default=6 * 3600.0, help="of history, as 6h")
    simulate.add_argument(
        "--mode", choices=["Auto", "Manual"], help="in place of the pool's own scaling.mode"
    )
    simulate.add_argument(
        "--curve", type=pair, metavar="A,C", help="t(b) = A + C*b in ms, in place of what was seen"
    )
    simulate.add_argument("--startup-p90", type=duration, help="in place of what was seen, as 90s")
    simulate.add_argument("--start", type=int, help="replicas Ready at the beginning")
    simulate.add_argument("--seed", type=int, default=1)
    simulate.add_argument("--plot", type=Path, metavar="FILE", help="a .png, .svg or .html")
    simulate.add_argument("--json", type=Path, metavar="FILE", help="all figures")
    return found


def _common(one: argparse.ArgumentParser) -> None:
    one.add_argument("pool", metavar="POOL")
    one.add_argument("-n", "--namespace", help="the pool's; default: the context's")
    one.add_argument("--context", help="of the kubeconfig")
    one.add_argument("--kubeconfig", help="default: $KUBECONFIG, else ~/.kube/config")
    one.add_argument(
        "--prometheus", metavar="URL", help="default: what the pool's policies say; services of"
        " the cluster (http://name.namespace.svc:9090) are reached through the API server",
    )  # fmt: skip


def duration(text: str) -> float:
    """Return the seconds of `90s`, `15m`, `6h` or `2d`."""
    try:
        seconds = float(text[:-1]) * UNITS[text[-1:]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(f"{text!r} must be as 90s, 15m, 6h or 2d") from None
    if not 0 < seconds <= 366 * UNITS["d"]:
        raise argparse.ArgumentTypeError(f"{text!r} must be more than nothing, and at most a year")
    return seconds


def pair(text: str) -> tuple[float, float]:
    """Return the two numbers of `40,5`."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be two numbers, as 40,5") from None
    if first < 0 or second <= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: A must not be negative, C must be positive")
    return first, second
