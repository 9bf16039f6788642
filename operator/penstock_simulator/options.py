"""Argument parser of the simulator, and its conversion to a scenario."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path

from pydantic import ValidationError

from penstock_api.types.batch_work import BatchWorkSpec
from penstock_api.types.objectives import DEFAULT_PERCENT, Objective, ObjectiveMetric
from penstock_operator.decide.spec.effective import IDLE_SECONDS, MAX_HOLD_SECONDS
from penstock_operator.decide.spec.law_settings import AllowedLateShares, LawSettings
from penstock_operator.decide.spec.objectives import Target
from penstock_operator.observed import SignalSource
from penstock_simulator.arrivals import MEAN_REPLICAS
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.step_time import StepModel
from penstock_simulator.scenario import (
    ClientBehavior,
    ColdStarts,
    LineBatch,
    Loss,
    Routing,
    Scenario,
)

CURVE = (100.0, 10.0)
"""Illustrative curve in milliseconds, used for the simulated figures of docs/design/control-law.md#findings."""


PICTURES = (".png", ".svg", ".pdf")
"""Suffixes of the plots that can be written."""
OBJECTIVE_MILLISECONDS = 1000
METRIC = ObjectiveMetric.REQUEST_LATENCY


def parser() -> argparse.ArgumentParser:
    """Return the parser of `simulate`."""
    command_line = argparse.ArgumentParser(prog="penstock_simulator", description=__doc__)
    commands = command_line.add_subparsers(dest="command", required=True)
    simulate = commands.add_parser("simulate", help="run laws over a trace of arrivals")
    simulate.add_argument("--trace", type=Path, required=True, help="file of arrival times")
    simulate.add_argument(
        "--law",
        nargs="+",
        default=["CapacityAtObjective"],
        help="names of laws; see docs/reference/simulator.md",
    )
    simulate.add_argument(
        "--curve", type=_curve, default=CURVE, metavar="A,C", help="t(b) = A + C*b in ms"
    )
    simulate.add_argument(
        "--knee",
        type=_count(0),
        default=0,
        metavar="ROWS",
        help="rows up to which a batch takes A ms",
    )
    simulate.add_argument(
        "--stair", type=_count(1), default=1, metavar="ROWS", help="rows of a step of the curve"
    )
    simulate.add_argument(
        "--objective-ms",
        type=_count(1),
        default=None,
        help="request latency that counts as on time; 1000, or none with --steps",
    )
    simulate.add_argument(
        "--steps",
        type=step_model,
        nargs="?",
        default=None,
        const=StepModel(),
        metavar="A,P,D,K",
        help="pods generate text, from a trace with tokens: a step takes A ms, P for 256 prompt tokens, D a row and K for 4096 tokens read; without numbers those of docs/reference/simulator.md",
    )
    simulate.add_argument("--cache-tokens", type=_count(1), default=StepModel().cache_tokens)
    simulate.add_argument(
        "--step-tokens",
        type=_count(1),
        default=StepModel().step_tokens,
        help="tokens of a step, prompts in chunks included",
    )
    simulate.add_argument(
        "--first-token-ms", type=_count(1), default=None, help="time to first token that is on time"
    )
    simulate.add_argument(
        "--output-token-ms",
        type=_count(1),
        default=None,
        help="time per output token that is on time",
    )
    simulate.add_argument(
        "--percent",
        type=_percent,
        default=DEFAULT_PERCENT,
        help="percentage of requests that must be on time, 50 to 99.9",
    )
    simulate.add_argument(
        "--cap-max", type=_count(1), default=32, help="largest batch any law may use"
    )
    simulate.add_argument("--window-ms", type=_count(0), default=5, help="batching window")
    simulate.add_argument("--seed", type=_count(0), nargs="+", default=[1])
    simulate.add_argument(
        "--routing", type=Routing, choices=list(Routing), default=Routing.CONNECTION
    )
    simulate.add_argument("--connections", type=_count(1), default=ClientBehavior().connections)
    simulate.add_argument("--cold-median", type=_amount, default=60.0, metavar="SECONDS")
    simulate.add_argument(
        "--mean-replicas",
        type=_amount,
        default=MEAN_REPLICAS,
        help="scale the trace to this mean demand, in fully batched replicas; 0: unscaled",
    )
    simulate.add_argument("--start", type=_count(0), default=10, help="Ready replicas at the start")
    simulate.add_argument(
        "--min-replicas",
        type=_count(0),
        default=1,
        help="0 needs --routing least-request, which then holds requests without a pod",
    )
    simulate.add_argument(
        "--idle",
        type=_count(1),
        default=IDLE_SECONDS,
        metavar="SECONDS",
        help="time without a request after which the last replica goes, with --min-replicas 0",
    )
    simulate.add_argument(
        "--timeout",
        type=_amount,
        default=None,
        metavar="SECONDS",
        help="time after which a client gives up; 30, or 600 with --min-replicas 0",
    )
    simulate.add_argument("--max-replicas", type=_count(1), default=64)
    simulate.add_argument(
        "--source",
        type=SignalSource,
        choices=[SignalSource.PODS, SignalSource.PROMETHEUS],
        default=SignalSource.PODS,
        help="source of samples: all pods read at once, or each scraped at its own time",
    )
    simulate.add_argument(
        "--delay", type=_amount, default=Loss().delay_seconds, help="age of readable samples, in s"
    )
    simulate.add_argument(
        "--jitter", type=_amount, default=0.0, help="deviation of Prometheus' scrapes, in s"
    )
    simulate.add_argument("--loss", type=_share, default=0.0, help="share of samples lost")
    simulate.add_argument(
        "--outage",
        type=_outage,
        nargs="*",
        default=[],
        metavar="FROM,UNTIL",
        help="periods without signals, in seconds",
    )
    simulate.add_argument(
        "--seconds",
        type=_amount,
        default=None,
        help="use only this many seconds from the start of the trace",
    )
    simulate.add_argument(
        "--batch",
        type=line_batch,
        nargs="*",
        default=[],
        metavar="LINES,FROM,UNTIL",
        help="batches of one-row lines, with the seconds of their submission and their expiry",
    )
    simulate.add_argument(
        "--batch-replicas",
        type=_count(0),
        default=0,
        metavar="N",
        help="spec.batchWork.maxReplicas: replicas that the operator's laws may add for batches",
    )
    simulate.add_argument("--json", type=Path, default=Path("build/simulate.json"))
    simulate.add_argument(
        "--plot",
        type=_picture,
        default=Path("build/simulate.png"),
        help="a .png, .svg or .pdf file",
    )
    return command_line


def _percent(text: str) -> int | str:
    try:
        return Objective(metric=METRIC, milliseconds=1, percent=text).percent or DEFAULT_PERCENT
    except ValidationError as error:
        raise argparse.ArgumentTypeError(error.errors()[0]["msg"]) from None


def step_model(text: str) -> StepModel:
    """Return the model of `A,P,D,K` in milliseconds.

    Raises:
        ArgumentTypeError: the text has another form, or a number is negative.
    """
    try:
        a, p, d, k = (float(part) / 1000 for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be four numbers: A,P,D,K in ms") from None
    if a <= 0 or not all(0 <= each < inf for each in (a, p, d, k)):
        raise argparse.ArgumentTypeError(f"{text!r} must not be negative, and A above 0")
    return StepModel(a, p, d, k)


def _count(least: int) -> Callable[[str], int]:
    def count(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} must be an integer of at least {least}")
        return int(text)

    return count


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None
    if not 0 <= amount < inf:
        raise argparse.ArgumentTypeError(f"{text!r} must be finite and not negative")
    return amount


def _share(text: str) -> float:
    share = _amount(text)
    if share > 1:
        raise argparse.ArgumentTypeError(f"{text!r} must be between 0 and 1")
    return share


def _pair(text: str) -> tuple[float, float]:
    first, comma, second = text.partition(",")
    if not comma:
        raise argparse.ArgumentTypeError(f"{text!r} must be two numbers separated by a comma")
    return _amount(first), _amount(second)


def _outage(text: str) -> tuple[float, float]:
    begin, end = _pair(text)
    if begin >= end:
        raise argparse.ArgumentTypeError(f"{text!r} must have FROM before UNTIL")
    return begin, end


def _picture(text: str) -> Path:
    path = Path(text)
    if path.suffix not in PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} must end in {', '.join(PICTURES)}")
    return path


def _curve(text: str) -> tuple[float, float]:
    a, c = _pair(text)
    if a + c <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} must not be 0: a batch takes time")
    return a, c


def line_batch(text: str) -> LineBatch:
    """Return the batch of `LINES,FROM,UNTIL`.

    Raises:
        ArgumentTypeError: the text has another form, or the batch expires before its submission.
    """
    lines, *times = text.split(",")
    try:
        begin, end = (float(time) for time in times)
        batch = LineBatch(int(lines), begin, end)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} must be LINES,FROM,UNTIL: an integer and two times in seconds"
        ) from None
    if batch.lines < 1 or not 0 <= batch.submitted < batch.expires < inf:
        raise argparse.ArgumentTypeError(
            f"{text!r} must have at least one line, and FROM before UNTIL"
        )
    return batch


def service(args: argparse.Namespace) -> ServiceModel:
    """Return the service model of the arguments."""
    a, c = (milliseconds / 1000.0 for milliseconds in args.curve)
    return ServiceModel(a, c, knee=args.knee, stair=args.stair)


def steps(args: argparse.Namespace) -> StepModel | None:
    """Return the time of a step of the arguments; None of pods that serve batches."""
    model: StepModel | None = args.steps
    if model is None:
        return None
    return replace(model, cache_tokens=args.cache_tokens, step_tokens=args.step_tokens)


def settings(args: argparse.Namespace) -> LawSettings:
    """Return the settings of the law; others are the built-in values of a pool."""
    whole = args.objective_ms
    if whole is None and args.steps is None:
        whole = OBJECTIVE_MILLISECONDS
    late = Target(1, args.percent).late_share
    return LawSettings(
        objective_milliseconds=whole,
        first_token_milliseconds=args.first_token_ms,
        output_token_milliseconds=args.output_token_ms,
        late=AllowedLateShares(late, late, late),
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
    """Return the scenario of the arguments."""
    return Scenario(
        service=service(args),
        settings=settings(args),
        start_replicas=args.start,
        routing=args.routing,
        cold=ColdStarts(median_seconds=args.cold_median),
        clients=ClientBehavior(args.connections, timeout_seconds=_timeout(args)),
        loss=Loss(args.source, args.delay, args.jitter, args.loss, tuple(args.outage)),
        idle_seconds=args.idle,
        batches=tuple(args.batch),
        batch_work=BatchWorkSpec(max_replicas=args.batch_replicas) if args.batch else None,
        seed=seed,
    )


def _timeout(args: argparse.Namespace) -> float:
    if args.timeout is not None:
        return float(args.timeout)
    return MAX_HOLD_SECONDS if args.min_replicas == 0 else ClientBehavior().timeout_seconds
