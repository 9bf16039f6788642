"""Argument parser of `kubectl penstock`."""

import argparse
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from math import inf
from pathlib import Path
from typing import TypeVar

from penstock_operator.decide.spec.objectives import Target
from penstock_simulator.options import step_model
from penstock_simulator.pods.step_time import StepModel
from penstock_simulator.scenario import LineBatch
from penstock_tuner.options import counts, positive, words

MAX_DIGITS = 8
"""Digits of the lines of a simulated batch, and of a seed."""
MAX_MILLISECONDS = 3_600_000
MAX_LATE_SHARE = 0.5
MIN_LATE_SHARE = 0.001 - 1e-9
"""Of 99.9 percent, as a float."""
Value = TypeVar("Value")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
EPILOG = """examples:
  kubectl penstock batches -n team-a
  kubectl penstock explain chat -n team-a
  kubectl penstock simulate chat -n team-a --policy proposed.yaml --last 6h --plot proposed.html
  kubectl penstock simulate chat -n team-a --policy proposed.yaml --trace arrivals.txt
  kubectl penstock simulate chat -n team-a --last 6h --savings
  kubectl penstock tune chat -n team-a --minutes 5 --plot front.svg
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of `kubectl penstock`."""
    command_line = argparse.ArgumentParser(
        prog="kubectl penstock",
        description="Explain the decisions of a pool's control loop, simulate other policies, tune settings, and list batches.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = command_line.add_subparsers(dest="command", required=True)
    batches = commands.add_parser("batches", help="list the unfinished batches of a namespace")
    _common(batches)
    explain = commands.add_parser("explain", help="explain the pool's batch cap and replica count")
    _of_pool(explain)
    explain.add_argument(
        "--last", type=duration, default=3600.0, help="length of the history, e.g. 1h"
    )
    simulate = commands.add_parser(
        "simulate", help="simulate policies on the pool's history or on a trace"
    )
    _of_pool(simulate)
    simulate.add_argument(
        "--policy", type=Path, action="append", default=[], metavar="FILE",
        help="InferencePolicy manifests, which replace policies of the same name in the cluster",
    )  # fmt: skip
    simulate.add_argument("--trace", type=Path, help="file of arrival times instead of the history")
    simulate.add_argument(
        "--last", type=duration, default=6 * 3600.0, help="length of the history, e.g. 6h"
    )
    simulate.add_argument(
        "--mode", choices=["Auto", "Manual"], help="overrides the pool's scaling.mode"
    )
    simulate.add_argument(
        "--curve", type=of_variant(pair), action="append", default=[], metavar="[NAME=]A,C",
        help="t(b) = A + C*b in ms, of a pool with variants each NAME; overrides the observed curve",
    )  # fmt: skip
    simulate.add_argument(
        "--steps", type=step_model, metavar="A,P,D,K",
        help="of a pool that generates text: a step takes A ms, P for 256 prompt tokens, D a row and K for 4096 tokens read; default: observed",
    )  # fmt: skip
    simulate.add_argument(
        "--tokens", type=pair, metavar="PROMPT,ANSWER",
        help="of a pool that generates text: mean tokens of a request, for arrivals without tokens; default: those of the history",
    )  # fmt: skip
    simulate.add_argument(
        "--cache-tokens", type=positive(int), default=StepModel().cache_tokens, metavar="N",
        help="of a pool that generates text: tokens that the KV cache of a pod holds",
    )  # fmt: skip
    simulate.add_argument(
        "--startup-p90", type=duration, help="overrides the observed start-up time, e.g. 90s"
    )
    simulate.add_argument("--start", type=positive(int), help="Ready replicas at the start")
    simulate.add_argument(
        "--batch",
        type=line_batch,
        action="append",
        default=[],
        metavar="LINES,DURATION",
        help="batch work of this many lines, submitted at the start and due after this time, e.g. 50000,6h",
    )
    simulate.add_argument(
        "--savings",
        action="store_true",
        help="also simulate the lowest fixed count, or a fixed mix of variants, that attains, and an HPA at 70 %% GPU utilization",
    )
    simulate.add_argument(
        "--price", type=of_variant(price), action="append", default=[], metavar="[NAME=]AMOUNT",
        help="price of an hour of a replica, of a pool with variants each NAME; default: that of the status",
    )  # fmt: skip
    simulate.add_argument("--seed", type=seed, default=1)
    simulate.add_argument(
        "--plot", type=Path, metavar="FILE", help="write a plot as .png, .svg, .pdf or .html"
    )
    simulate.add_argument("--json", type=Path, metavar="FILE", help="write all figures as JSON")
    _tune(commands.add_parser("tune", help="measure settings for the pool in a Job of its own"))
    return command_line


def _tune(tune: argparse.ArgumentParser) -> None:
    _of_pool(tune)
    tune.add_argument(
        "--minutes", type=positive(float), default=5.0, help="time for all measurements, 5 if unset"
    )
    tune.add_argument(
        "--objective", type=target, metavar="MS[@PERCENT]",
        help="latency in ms and percentage of requests, e.g. 500@99; default: the pool's RequestLatency",
    )  # fmt: skip
    tune.add_argument(
        "--first-token", type=target, metavar="MS[@PERCENT]",
        help="time to the first token, of a pool that generates text; default: the pool's TimeToFirstToken",
    )  # fmt: skip
    tune.add_argument(
        "--output-token", type=target, metavar="MS[@PERCENT]",
        help="mean time per token after the first; default: the pool's TimePerOutputToken",
    )  # fmt: skip
    tune.add_argument(
        "--clients", type=positive(int), default=32,
        help="clients, each of which sends its next request when the last has ended; 32 if unset",
    )  # fmt: skip
    tune.add_argument("--rows", type=counts, help="rows of the requests, sent in turn, e.g. 1,8")
    tune.add_argument(
        "--prompt-tokens", type=counts, help="tokens of the prompts of a pool that generates text, sent in turn, e.g. 64,512"
    )  # fmt: skip
    tune.add_argument("--output-tokens", type=counts, help="tokens of its answers, in turn, e.g. 32,256")  # fmt: skip
    tune.add_argument(
        "--rate", type=positive(float), help="requests/s a pod that must be on time, too"
    )
    tune.add_argument(
        "--last", type=duration, default=3600.0,
        help="length of the history from which rows and rate follow, e.g. 1h",
    )  # fmt: skip
    tune.add_argument(
        "--backends", type=words, default=(), help="backends to search, e.g. Eager,OpenVINO"
    )
    tune.add_argument(
        "--threads", type=counts, default=(), help="numbers of threads to search, e.g. 1,2"
    )
    tune.add_argument(
        "--disciplines",
        type=words,
        default=(),
        help="queueing disciplines to search, e.g. FirstInFirstOut,ShortestJobFirst",
    )
    tune.add_argument(
        "--dtypes",
        type=words,
        default=(),
        help="data types to search, e.g. Float32,BFloat16",
    )
    tune.add_argument(
        "--batched-tokens", type=counts, default=(), help="tokens of a step to search, of a pool that generates text, e.g. 256,1024"
    )  # fmt: skip
    tune.add_argument(
        "--price", type=price, metavar="AMOUNT",
        help="price of an hour of a replica; default: status.cost.perReplicaHour",
    )  # fmt: skip
    tune.add_argument(
        "--apply", action="store_true", help="apply the policy instead of printing it"
    )
    tune.add_argument(
        "--plot", type=svg_file, metavar="FILE", help="write a picture of the front as .svg"
    )
    tune.add_argument(
        "--output",
        choices=["table", "json", "yaml"],
        default="table",
        help="table if unset; yaml is the policy alone",
    )
    tune.add_argument(
        "--delete", action="store_true", help="remove the Job and its trials, and end"
    )


def _common(command: argparse.ArgumentParser) -> None:
    command.add_argument("-n", "--namespace", help="default: that of the context")
    command.add_argument("--context", help="context of the kubeconfig")
    command.add_argument("--kubeconfig", help="default: $KUBECONFIG, else ~/.kube/config")


def _of_pool(command: argparse.ArgumentParser) -> None:
    command.add_argument("pool", metavar="POOL")
    _common(command)
    command.add_argument(
        "--prometheus", metavar="URL", help="default: from the pool's policies; Services in"
        " the cluster (http://name.namespace.svc:9090) are reached through the API server's proxy",
    )  # fmt: skip


def line_batch(text: str) -> LineBatch:
    """Return the batch of `LINES,DURATION`.

    Raises:
        ArgumentTypeError: the text has another form.
    """
    lines, _, until = text.partition(",")
    if not (lines.isascii() and lines.isdigit() and len(lines) <= MAX_DIGITS and int(lines)):
        raise argparse.ArgumentTypeError(
            f"invalid batch {text!r}: expected lines and the time to their deadline, e.g. 50000,6h"
        )
    return LineBatch(int(lines), 0.0, duration(until))


def duration(text: str) -> float:
    """Return the seconds of `90s`, `15m`, `6h` or `2d`."""
    try:
        seconds = float(text[:-1]) * UNITS[text[-1:]]
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(
            f"invalid duration {text!r}: expected e.g. 90s, 15m, 6h, 2d"
        ) from None
    if not 0 < seconds <= 366 * UNITS["d"]:
        raise argparse.ArgumentTypeError(
            f"invalid duration {text!r}: expected more than 0 and at most one year"
        )
    return seconds


def target(text: str) -> Target:
    """Return the objective of `500` or `500@99.9`."""
    try:
        read = Target.read(text)
        valid = (
            1 <= read.milliseconds <= MAX_MILLISECONDS
            and MIN_LATE_SHARE <= read.late_share <= MAX_LATE_SHARE
        )
    except ValueError:
        valid = False
    if not valid:
        raise argparse.ArgumentTypeError(
            f"invalid objective {text!r}: expected milliseconds, and a percentage from 50 to 99.9, e.g. 500@99"
        )
    return read


def price(text: str) -> Decimal:
    """Return a price that is not negative."""
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal(-1)
    if amount.is_nan() or not 0 <= amount < Decimal(10) ** 9:
        raise argparse.ArgumentTypeError(
            f"invalid price {text!r}: expected a number that is not negative, e.g. 2.50"
        )
    return amount


def of_variant(read: Callable[[str], Value]) -> Callable[[str], tuple[str, Value]]:
    """Return a parser of `NAME=VALUE` or `VALUE`: the name of a variant, empty without one, and the value."""

    def parse(text: str) -> tuple[str, Value]:
        name, _, value = text.rpartition("=")
        return name, read(value)

    return parse


def svg_file(text: str) -> Path:
    """Return a file that a picture can be written to."""
    path = Path(text)
    if path.suffix != ".svg" or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(
            f"invalid file {text!r}: expected a name that ends in .svg, in a folder that exists"
        )
    return path


def seed(text: str) -> int:
    """Return an integer that is not negative."""
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS):
        raise argparse.ArgumentTypeError(
            f"invalid seed {text!r}: expected an integer from 0 to {10**MAX_DIGITS - 1}"
        )
    return int(text)


def pair(text: str) -> tuple[float, float]:
    """Return the two numbers of `40,5`."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"invalid pair {text!r}: expected two numbers, e.g. 40,5"
        ) from None
    if not (0 <= first < inf and 0 < second < inf):
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected finite numbers, the first not negative, the second positive"
        )
    return first, second
